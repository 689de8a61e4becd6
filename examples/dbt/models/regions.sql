{{ config(materialized='table') }}

select distinct region from {{ ref('trips') }}

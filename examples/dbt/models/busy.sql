{{ config(materialized='view') }}

select ds, sum(trips) as trips from {{ ref('daily') }} group by ds having sum(trips) > 1

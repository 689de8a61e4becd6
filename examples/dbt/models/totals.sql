-- Without partition_by insert_overwrite replaces the whole table.
{{ config(materialized='incremental', incremental_strategy='insert_overwrite') }}

select region, sum(trips) as trips from {{ ref('daily') }} group by region

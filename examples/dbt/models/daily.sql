-- A day's rows replace that day alone: dbt sets spark.sql.sources.partitionOverwriteMode to DYNAMIC for partition_by.
{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['ds']) }}

select region, count(*) as trips, sum(fare) * {{ var('factor', 1) }} as fare, ds
from {{ ref('trips') }}
{% if is_incremental() %}
where ds >= date'{{ var('since', '1900-01-01') }}'
{% endif %}
group by region, ds

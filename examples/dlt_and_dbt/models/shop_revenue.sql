select shop, count(*) as orders, sum(total) as revenue
from {{ source('raw', 'orders') }}
group by shop

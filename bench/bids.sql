SELECT d.auction, d.bidder, d.price, d.channel, d.url, to_timestamp(d.date_time) AS at, d.extra
FROM (SELECT from_json(CAST(value AS STRING), 'auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time STRING, extra STRING') AS d FROM raw)
WHERE d.price < 5000

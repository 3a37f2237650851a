"""Revenue per user and minute, for spark-submit: orders with prices, windows, a table. Run it again to continue."""

from pyspark.sql import SparkSession

from windbolt import AggregateBolt, TopologyBuilder, sinks, spouts
from windbolt.aggregates import count, sum, window_end

# Hive's catalog keeps the table between runs; a cluster has a catalog of its own.
spark = SparkSession.builder.appName("revenue").enableHiveSupport().getOrCreate()
spark.sql("CREATE DATABASE IF NOT EXISTS shop")

products = spark.read.csv("products.csv", header=True, schema="product string, price double")
orders = (
    spark.readStream.schema("product string, user string, amount int, ts timestamp")
    .option("maxFilesPerTrigger", 10)
    .json("orders")
)
paid = orders.join(products, "product").selectExpr("user", "amount * price AS paid", "ts")

builder = TopologyBuilder("revenue")
builder.set_spout("paid", spouts.stream(paid))
builder.set_bolt(
    "revenue",
    AggregateBolt(by="user", orders=count(), paid=sum("paid"), until=window_end())
    .with_tumbling_window("1m")
    .with_timestamp_field("ts")
    .with_lag("10s"),
    parallelism=2,
).fields_grouping("paid")
builder.set_sink("out", sinks.table("shop.revenue", format="delta")).from_("revenue")

builder.build().run("checkpoint", spark=spark)
spark.sql("SELECT user, sum(orders) AS orders, sum(paid) AS paid FROM shop.revenue GROUP BY user ORDER BY user").show()

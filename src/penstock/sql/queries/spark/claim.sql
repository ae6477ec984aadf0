-- The messages of a slice, for a task: see penstock.spark_claim. Our own code fills in the placeholders in braces, and
-- quotes other values.
select {columns} from penstock.spark_claim({consumer}, {generation}, {tick}, {slice})

-- The messages of a slice, for a task: see penstock.spark_claim. Everything in braces is ours or quoted.
select {columns} from penstock.spark_claim({consumer}, {generation}, {tick}, {slice})

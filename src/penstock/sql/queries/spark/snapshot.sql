-- All of a table as it is now. Everything in braces is ours or quoted.
select {columns} from {relation} where {filter}

-- All rows of a table as it is now. Our own code fills in the placeholders in braces, and quotes other values.
select {columns} from {relation} where {filter}

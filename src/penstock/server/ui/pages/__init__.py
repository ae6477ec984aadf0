"""The pages, one module each: what is asked of the database, and what is made of it."""

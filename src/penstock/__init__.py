"""A durable message queue inside your own PostgreSQL."""

"""Messages about findings to a webhook and to Slack, for operators without Alertmanager."""

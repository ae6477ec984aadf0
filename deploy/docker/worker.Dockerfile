# syntax=docker/dockerfile:1
# A worker with your handlers. Build it from the folder of your application:
#   docker build -f worker.Dockerfile -t shop-worker:1 app
ARG PENSTOCK_IMAGE=penstock:0.1.0
FROM ${PENSTOCK_IMAGE}
COPY --chown=root:root . /app
# Its metrics are on port 9100. It has no other port.
EXPOSE 9100
HEALTHCHECK NONE
CMD ["worker", "work:app", "--log-format", "json", "--metrics", "0.0.0.0:9100"]

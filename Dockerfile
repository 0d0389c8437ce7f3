# syntax=docker/dockerfile:1

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd ./cmd
COPY internal ./internal
ARG VERSION=dev
ARG COMMIT=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" \
        -o /image/graphsubd ./cmd/graphsubd \
    && install -D -m 0644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt \
    && install -d -m 1777 /image/tmp \
    && install -d -m 0700 /state/graphsubd

FROM scratch
COPY --from=build /image/ /
# The folder of the store. A volume mounted here takes over its owner.
COPY --from=build --chown=65532:65532 /state/ /var/lib/
USER 65532:65532
ENTRYPOINT ["/graphsubd"]

# Two images, for the CPU and for NVIDIA GPUs (docs/docker.md):
#
#     docker build --target cpu  -t prefold:cpu  .
#     docker build --target cuda -t prefold:cuda .

ARG RUST_IMAGE=docker.io/library/rust:1-bookworm
ARG BASE_IMAGE=docker.io/library/debian:bookworm-slim

# --- What both images have ----------------------------------------------------------------------------------------------

FROM ${BASE_IMAGE} AS runtime
# Root certificates, for the hub.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
# Downloaded models; the container's user must be able to write there.
RUN useradd --uid 1000 --create-home prefold && install -d -o prefold -g prefold /data
USER prefold
# Both caches are in the volume, because the root may be read-only. PORT is not set here: a variable wins over the file that
# --config names. HOSTNAME is, because the runtime would set it to the container's name.
ENV HUGGINGFACE_HUB_CACHE=/data HF_XET_CACHE=/data/xet HOSTNAME=0.0.0.0
VOLUME /data
EXPOSE 3000
# Loading a large model takes its time. HTTP by bash's own sockets, because the image has no client; if the port does not answer in HTTP
# (--tls-cert), HTTPS by the openssl that ca-certificates needs.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 CMD ["bash", "-c", \
    "get() { printf 'GET /health HTTP/1.0\\r\\n\\r\\n'; }; exec 3<>/dev/tcp/127.0.0.1/${PORT:-3000} && get >&3 && read -ru3 answer; \
    [[ $answer = HTTP/* ]] || read -r answer < <(get | openssl s_client -quiet -connect 127.0.0.1:${PORT:-3000} 2>/dev/null); \
    [[ $answer = *' 200 '* ]]"]
ENTRYPOINT ["prefold"]

# --- CPU -----------------------------------------------------------------------------------------------------------------

FROM ${RUST_IMAGE} AS build-cpu
WORKDIR /src
COPY . .
# The commit that --version, /info and the metrics name: --build-arg PREFOLD_COMMIT="$(git rev-parse HEAD)"
ARG PREFOLD_COMMIT=
# Cargo's downloads and intermediate results stay out of the image.
RUN cargo build --locked --release -p prefold --target-dir /tmp/target \
    && install -D -s /tmp/target/release/prefold /out/prefold \
    && rm -rf /tmp/target

FROM runtime AS cpu
COPY --from=build-cpu /out/prefold /usr/local/bin/prefold

# --- CUDA ----------------------------------------------------------------------------------------------------------------

FROM ${RUST_IMAGE} AS build-cuda
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-pip \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# CUDA 13 from PyPI (0.6 GB); no image of NVIDIA's is needed.
COPY scripts/cuda-requirements.txt scripts/cuda-toolchain.sh scripts/
RUN scripts/cuda-toolchain.sh /opt/cuda
# For which GPU candle's own kernels are compiled, none of which prefold runs; ours are for all that docs/docker.md names.
ARG CUDA_COMPUTE_CAP=80
ENV CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP}
COPY . .
ARG PREFOLD_COMMIT=
# There is no driver while an image is built; the program opens it when it starts.
RUN eval "$(scripts/cuda-toolchain.sh /opt/cuda)" \
    && cargo build --locked --release --features cuda -p prefold --target-dir /tmp/target \
    && install -D -s /tmp/target/release/prefold /out/prefold \
    && install -D -m 644 -t /out/lib "$CUDA_HOME"/lib/libcublas.so.13 "$CUDA_HOME"/lib/libcublasLt.so.13 \
    && rm -rf /tmp/target

FROM runtime AS cuda
# What NVIDIA's container toolkit mounts: all devices unless the runtime says otherwise, the driver and nvidia-smi.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=build-cuda /out/lib /usr/local/lib/
COPY --from=build-cuda /out/prefold /usr/local/bin/prefold
USER root
RUN ldconfig
USER prefold

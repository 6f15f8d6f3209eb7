# Two images, for the CPU and for NVIDIA GPUs (docs/docker.md):
#
#     docker build --target cpu  -t prefold:cpu  .
#     docker build --target cuda -t prefold:cuda .

ARG RUST_IMAGE=docker.io/library/rust:1-bookworm
ARG CPU_IMAGE=docker.io/library/debian:bookworm-slim
ARG CUDA_DEVEL_IMAGE=docker.io/nvidia/cuda:13.0.1-devel-ubuntu24.04
ARG CUDA_BASE_IMAGE=docker.io/nvidia/cuda:13.0.1-base-ubuntu24.04

# --- CPU -----------------------------------------------------------------------------------------------------------------

FROM ${RUST_IMAGE} AS build-cpu
WORKDIR /src
COPY . .
# Cargo's downloads and intermediate results stay out of the image.
RUN cargo build --locked --release -p prefold --target-dir /tmp/target \
    && install -D -s /tmp/target/release/prefold /out/prefold \
    && rm -rf /tmp/target

FROM ${CPU_IMAGE} AS cpu
# Root certificates, for the hub.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-cpu /out/prefold /usr/local/bin/prefold
# Downloaded models; whoever the container runs as must be able to write there.
RUN useradd --uid 1000 --create-home prefold && install -d -o prefold -g prefold /data
USER prefold
# Both caches are in the volume, because the root may be read-only. PORT is not set here: a variable wins over the file that
# --config names. HOSTNAME is, because the runtime would set it to the container's name.
ENV HUGGINGFACE_HUB_CACHE=/data HF_XET_CACHE=/data/xet HOSTNAME=0.0.0.0
VOLUME /data
EXPOSE 3000
# Loading a large model takes its time. Bash's own sockets, because the image has no client.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/${PORT:-3000} && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["prefold"]

# --- CUDA ----------------------------------------------------------------------------------------------------------------

FROM ${RUST_IMAGE} AS rust

FROM ${CUDA_DEVEL_IMAGE} AS build-cuda
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential pkg-config \
    && rm -rf /var/lib/apt/lists/*
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo PATH=/usr/local/cargo/bin:${PATH} CUDA_HOME=/usr/local/cuda
# For which GPU candle's own kernels are compiled; ours are for 8.0, 8.9 and 9.0 in any case.
ARG CUDA_COMPUTE_CAP=80
ENV CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP}
WORKDIR /src
COPY . .
# There is no driver while an image is built; the toolkit's stub is there to link against.
RUN LIBRARY_PATH=/usr/local/cuda/lib64/stubs cargo build --locked --release --features cuda -p prefold --target-dir /tmp/target \
    && install -D -s /tmp/target/release/prefold /out/prefold \
    && rm -rf /tmp/target

FROM ${CUDA_BASE_IMAGE} AS cuda
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libcublas-13-0 libcurand-13-0 cuda-nvrtc-13-0 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-cuda /out/prefold /usr/local/bin/prefold
# The image has a user 1000 of its own.
RUN (userdel --remove ubuntu 2>/dev/null || true) \
    && useradd --uid 1000 --create-home prefold && install -d -o prefold -g prefold /data
USER prefold
# Both caches are in the volume, because the root may be read-only. PORT is not set here: a variable wins over the file that
# --config names. HOSTNAME is, because the runtime would set it to the container's name.
ENV HUGGINGFACE_HUB_CACHE=/data HF_XET_CACHE=/data/xet HOSTNAME=0.0.0.0
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/${PORT:-3000} && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && head -1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["prefold"]

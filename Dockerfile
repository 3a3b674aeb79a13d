# The programs of spotps on Debian 12, without CUDA.
#
#     docker build -t spotps .
#     docker run --rm -it spotps psctl train /usr/share/spotps/configs/fashion_mnist_cnn.json
#
# It compiles the sources, makes the Debian package of them and installs that. Where there is a
# package or a tarball already, scripts/container.sh --package FILE makes the image of that.
# What was and wasn't tried: docs/versions.md, "Container".

FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN scripts/setup.sh \
  && apt-get install -y --no-install-recommends dpkg-dev python3-pip python3-wheel \
  && scripts/package.sh

FROM debian:12
COPY --from=build /src/build/release/spotps_*.deb /tmp/
RUN apt-get update \
  && apt-get install -y --no-install-recommends /tmp/spotps_*.deb ca-certificates \
    dataset-fashion-mnist \
  && rm -rf /tmp/spotps_*.deb /var/lib/apt/lists/*
# Runs go to ./runs: mount a volume there to keep them.
WORKDIR /work
CMD ["psctl", "--help"]

# The service, and nothing that it does not need:
#   docker build --target service -t colltune-service .
#   docker run --rm --read-only --tmpfs /tmp -p 8765:8765 -v /path/to/registry:/registry:ro colltune-service
# Everything, with a compiler and Open MPI (what is mounted at /out belongs to whom --user names):
#   docker build -t colltune .
#   docker run --rm -v "$PWD:/out" colltune tune --out /out/tuned

FROM debian:12.12-slim AS python
RUN apt-get update \
 && apt-get install --no-install-recommends --yes python3 \
 && rm -rf /var/lib/apt/lists/*

FROM python AS build
RUN apt-get update \
 && apt-get install --no-install-recommends --yes python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/build \
 && python3 -m venv --without-pip /opt/colltune
WORKDIR /src
COPY requirements/build.lock requirements/service.lock requirements/
RUN /opt/build/bin/pip install --no-cache-dir --only-binary :all: --require-hashes \
      --requirement requirements/build.lock \
 && /opt/build/bin/pip --python /opt/colltune/bin/python install --no-cache-dir --only-binary :all: \
      --require-hashes --requirement requirements/service.lock
COPY LICENSE README.md pyproject.toml ./
COPY libcolltune libcolltune
COPY packaging packaging
COPY src src
RUN /opt/build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/build/bin/pip --python /opt/colltune/bin/python install --no-cache-dir --no-index --no-deps \
      /dist/colltune-*.whl \
 && find /opt/colltune -type d \( -name tests -o -name include \) -prune -exec rm -rf {} + \
 && rm -rf /opt/colltune/lib/python3*/site-packages/pyarrow/*flight*

FROM python AS service
LABEL org.opencontainers.image.title="colltune-service" \
      org.opencontainers.image.description="Configurations of MPI collectives over HTTP" \
      org.opencontainers.image.licenses="BSD-3-Clause" \
      org.opencontainers.image.version="0.1.0"
# no program in it may gain rights
RUN groupadd --gid 10001 colltune \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin colltune \
 && install --directory --owner=10001 --group=10001 /registry \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=build /opt/colltune /opt/colltune
ENV PATH=/opt/colltune/bin:/usr/bin:/bin \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /registry
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s --retries=3 \
  CMD ["python3", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8765, timeout=4); c.request('GET', '/health/live'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["colltune", "serve", "--host", "0.0.0.0"]
CMD ["--registry", "/registry"]

FROM python AS measure
LABEL org.opencontainers.image.title="colltune" \
      org.opencontainers.image.description="Measures, fits and selects algorithms of MPI collectives" \
      org.opencontainers.image.licenses="BSD-3-Clause" \
      org.opencontainers.image.version="0.1.0"
# more Debian packages, such as "r-base-core r-cran-mgcv" for the learner that R fits
ARG PACKAGES=""
RUN apt-get update \
 && apt-get install --no-install-recommends --yes python3-venv gcc libc6-dev binutils make $PACKAGES \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/colltune
COPY LICENSE Makefile README.md pyproject.toml setup.sh ./
COPY requirements/all.lock requirements/
COPY libcolltune libcolltune
COPY packaging packaging
COPY src src
RUN make setup
ENV PATH=/opt/colltune/.venv/bin:/usr/local/bin:/usr/bin:/bin \
    LANG=C.UTF-8
# root, unlike the service: it writes into whatever folder is mounted; --user works as well
ENTRYPOINT ["colltune"]
CMD ["--help"]

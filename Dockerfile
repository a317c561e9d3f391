# colltune with the Open MPI wheel: docker run --rm -v "$PWD:/out" colltune tune --out /out/tuned
FROM python:3.11-slim
RUN apt-get update \
 && apt-get install --no-install-recommends --yes gcc libc6-dev binutils make \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/colltune
COPY . .
RUN make setup
ENV PATH=/opt/colltune/.venv/bin:$PATH
ENTRYPOINT ["colltune"]
CMD ["--help"]

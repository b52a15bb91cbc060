# Assay on a CPU:  docker build -t assay .  then  docker run --rm assay demo
# With your data:  docker run --rm -v "$PWD:/work" assay check submission
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY tools/hatch_build.py tools/
COPY assay assay
COPY checker checker
COPY reports reports
COPY runner runner
COPY schemas schemas
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
# The versions that the tests ran with.
COPY constraints.txt /tmp/
COPY --from=build /wheels /tmp/wheels
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt /tmp/wheels/*.whl \
    && rm -r /tmp/wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 assay \
    && install --directory --owner assay /work
USER 1000
WORKDIR /work
ENTRYPOINT ["assay"]
CMD ["--help"]

# A broker in a container:  docker build -t barnabas . && docker run -p 9092:9092 -v barnabas:/data barnabas
FROM python:3.13-slim AS wheel
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.13-slim
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && useradd --create-home barnabas && install -d -o barnabas /data
USER barnabas
VOLUME /data
EXPOSE 9092
HEALTHCHECK --start-period=20s CMD ["barnabas", "cluster", "cluster-id", "-b", "localhost:9092"]
ENTRYPOINT ["barnabas"]
CMD ["serve", "--data", "/data", "--host", "0.0.0.0", "--advertise", "localhost:9092"]

/* A client that costs less than what it measures: keeps requests in flight on several connections.
 *
 *   client FRAME ANSWER_BYTES ERROR_AT WINDOW SECONDS CONNECTIONS PORT...
 *
 * FRAME is a file with one whole request, the same for all. Connections are spread over the ports in turn. Each
 * answer has ANSWER_BYTES, and at ERROR_AT of it an error code that must be 0. Prints requests, seconds, and the
 * processor time in seconds that it has used itself.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 1 << 20, READ = 1 << 16, CONNECTIONS = 1024 };
struct connection { int socket; long unsent, in_flight, part; };

static char frame[FRAME], answers[READ];
static struct connection all[CONNECTIONS];

static void fail(const char *what) { perror(what); exit(1); }

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Sends what the window has room for. */
static void fill(struct connection *c, char *frames, long length, long window) {
    long free_ones = window - c->in_flight;
    for (long sent = 0, bytes = free_ones * length; sent < bytes;) {
        ssize_t n = send(c->socket, frames + sent, (size_t)(bytes - sent), MSG_NOSIGNAL);
        if (n <= 0) fail("send");
        sent += n;
    }
    c->in_flight += free_ones;
}

int main(int count, char **words) {
    if (count < 8) { fprintf(stderr, "usage: client FRAME ANSWER_BYTES ERROR_AT WINDOW SECONDS CONNECTIONS PORT...\n"); return 2; }
    FILE *file = fopen(words[1], "rb");
    long length = file ? (long)fread(frame, 1, FRAME, file) : 0;
    long answer = atol(words[2]), error_at = atol(words[3]), window = atol(words[4]), connections = atol(words[6]);
    double lasts = atof(words[5]);
    char *frames = malloc((size_t)(length * window));
    if (!length || length == FRAME || !frames || connections < 1 || connections > CONNECTIONS) fail(words[1]);
    for (long i = 0; i < window; i++) memcpy(frames + i * length, frame, (size_t)length);
    int poller = epoll_create1(0), on = 1;
    for (long i = 0; i < connections; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[7 + i % (count - 7)]))};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        all[i].socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[i].socket, (struct sockaddr *)&address, sizeof address)) fail("connect");
        setsockopt(all[i].socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        epoll_ctl(poller, EPOLL_CTL_ADD, all[i].socket, &(struct epoll_event){EPOLLIN, {.ptr = &all[i]}});
    }
    double started = seconds(CLOCK_MONOTONIC), now = started;
    long requests = 0, open = connections * window;
    for (long i = 0; i < connections; i++) fill(&all[i], frames, length, window);
    while (open) {
        struct epoll_event events[64];
        int ready = epoll_wait(poller, events, 64, -1);
        now = seconds(CLOCK_MONOTONIC);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            ssize_t got = recv(c->socket, answers, READ, 0);
            if (got <= 0) fail("recv");
            /* The first byte that is the error code's in an answer, from where this read began. */
            for (long at = error_at - c->part; at < got; at += answer)
                for (int byte = 0; byte < 2; byte++)
                    if (at + byte >= 0 && at + byte < got && answers[at + byte]) { fprintf(stderr, "an answer has an error\n"); return 1; }
            long done = (c->part + got) / answer;
            c->part = (c->part + got) % answer;
            c->in_flight -= done;
            requests += done;
            open -= done;
            if (now - started < lasts) {
                open += window - c->in_flight;
                fill(c, frames, length, window);
            }
        }
    }
    printf("%ld %.6f %.6f\n", requests, seconds(CLOCK_MONOTONIC) - started, seconds(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}

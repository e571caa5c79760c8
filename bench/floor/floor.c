/* The floor under a broker's figures: what the system calls and the checksum of a request cost, and nothing else.
 *
 *   floor PORT FOLDER
 *
 * One loop over epoll. A batch of a Produce request (v7, one topic, one partition) is framed, its CRC is
 * checked, its base offset stamped, and it is appended to a file with one write(); a Fetch (v11) is answered
 * with a header and sendfile(). Topics are created and deleted; that is all it knows. It is no Kafka: no
 * metadata, no groups, no replicas, no recovery, and it trusts its client, which is bench/wire.py.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, CREATE_TOPICS = 19, DELETE_TOPICS = 20, UNKNOWN_TOPIC = 3, CORRUPT = 2 };
enum { TOPICS = 4096, BATCH_HEAD = 61, READ = 1 << 18, FRAME = 4 << 20 };

struct topic {
    char name[256];
    int name_length, file;
    int64_t size, next_offset, batches, room;
    struct { int64_t offset, position; } *index; /* of each batch */
};
struct connection {
    int socket;
    size_t filled, owed;
    unsigned char in[FRAME + READ], out[FRAME];
};
static struct topic topics[TOPICS];
static const char *folder;
static uint32_t table[256];

static int16_t i16(const unsigned char *at) { uint16_t v; memcpy(&v, at, 2); return (int16_t)be16toh(v); }
static int32_t i32(const unsigned char *at) { uint32_t v; memcpy(&v, at, 4); return (int32_t)be32toh(v); }
static int64_t i64(const unsigned char *at) { uint64_t v; memcpy(&v, at, 8); return (int64_t)be64toh(v); }
static unsigned char *p16(unsigned char *at, int16_t v) { uint16_t n = htobe16((uint16_t)v); memcpy(at, &n, 2); return at + 2; }
static unsigned char *p32(unsigned char *at, int32_t v) { uint32_t n = htobe32((uint32_t)v); memcpy(at, &n, 4); return at + 4; }
static unsigned char *p64(unsigned char *at, int64_t v) { uint64_t n = htobe64((uint64_t)v); memcpy(at, &n, 8); return at + 8; }

static void fail(const char *what) { perror(what); exit(1); }

#ifdef __SSE4_2__
#include <nmmintrin.h>
static uint32_t crc32c(const unsigned char *data, size_t length) {
    uint64_t crc = ~0u, word;
    for (; length >= 8; data += 8, length -= 8) { memcpy(&word, data, 8); crc = _mm_crc32_u64(crc, word); }
    for (; length; data++, length--) crc = _mm_crc32_u8((uint32_t)crc, *data);
    return ~(uint32_t)crc;
}
#else
static uint32_t crc32c(const unsigned char *data, size_t length) {
    uint32_t crc = ~0u;
    for (; length; data++, length--) crc = crc >> 8 ^ table[(crc ^ *data) & 255];
    return ~crc;
}
#endif

static struct topic *find(const unsigned char *name, int length) {
    static struct topic *last; /* a client of one topic */
    if (last && last->name_length == length && !memcmp(last->name, name, (size_t)length)) return last;
    for (int i = 0; i < TOPICS; i++)
        if (topics[i].name_length == length && length && !memcmp(topics[i].name, name, (size_t)length)) return last = &topics[i];
    return NULL;
}

static void create(const unsigned char *name, int length) {
    char path[4096];
    if (find(name, length)) return;
    for (int i = 0; i < TOPICS; i++) {
        struct topic *t = &topics[i];
        if (t->name_length) continue;
        memset(t, 0, sizeof *t);
        memcpy(t->name, name, (size_t)length);
        t->name_length = length;
        snprintf(path, sizeof path, "%s/%s.log", folder, t->name);
        t->file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
        if (t->file < 0) fail(path);
        return;
    }
}

static void delete(const unsigned char *name, int length) {
    char path[4096];
    struct topic *t = find(name, length);
    if (!t) return;
    snprintf(path, sizeof path, "%s/%s.log", folder, t->name);
    unlink(path);
    close(t->file);
    free(t->index);
    memset(t, 0, sizeof *t);
}

/* Appends one batch; its base offset, or minus an error code. */
static int64_t append(struct topic *t, unsigned char *batch, int32_t length) {
    if (length < BATCH_HEAD || (uint32_t)i32(batch + 17) != crc32c(batch + 21, (size_t)length - 21)) return -CORRUPT;
    if (t->batches == t->room && !(t->index = realloc(t->index, (size_t)(t->room = t->room * 2 + 1024) * sizeof *t->index))) fail("realloc");
    int64_t base = t->next_offset;
    t->index[t->batches].offset = base;
    t->index[t->batches++].position = t->size;
    p64(batch, base);
    p32(batch + 12, 0);
    if (write(t->file, batch, (size_t)length) != length) fail("write");
    t->size += length;
    t->next_offset += i32(batch + 23) + 1;
    return base;
}

static void flush(struct connection *c, int flags) {
    for (size_t sent = 0; sent < c->owed;) {
        ssize_t n = send(c->socket, c->out + sent, c->owed - sent, flags | MSG_NOSIGNAL);
        if (n > 0) sent += (size_t)n;
        else if (errno == EAGAIN) poll(&(struct pollfd){c->socket, POLLOUT, 0}, 1, -1);
        else break; /* the next read says that it is gone */
    }
    c->owed = 0;
}

static void send_range(struct connection *c, struct topic *t, int64_t position, int64_t length) {
    flush(c, MSG_MORE);
    for (off_t at = position; length > 0;) {
        ssize_t n = sendfile(c->socket, t->file, &at, (size_t)length);
        if (n > 0) length -= n;
        else if (n < 0 && errno == EAGAIN) poll(&(struct pollfd){c->socket, POLLOUT, 0}, 1, -1);
        else break;
    }
}

static int64_t position_of(struct topic *t, int64_t offset) {
    int64_t low = 0, high = t->batches; /* the last batch that begins at the offset or before */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (t->index[middle].offset <= offset) low = middle + 1; else high = middle;
    }
    return low && offset < t->next_offset ? t->index[low - 1].position : t->size;
}

static void answer(struct connection *c, unsigned char *frame) {
    int key = i16(frame);
    unsigned char *body = frame + 10 + i16(frame + 8), *name, *out = c->out + c->owed + 4;
    out = p32(out, i32(frame + 4));
    if (key == PRODUCE) {
        name = body + 2 + 2 + 4 + 4;
        int length = i16(name);
        unsigned char *partition = name + 2 + length + 4;
        struct topic *t = find(name + 2, length);
        int64_t base = t ? append(t, partition + 8, i32(partition + 4)) : -UNKNOWN_TOPIC;
        out = p32(out, 1);
        memcpy(out, name, (size_t)length + 2);
        out = p32(p32(out + 2 + length, 1), i32(partition));
        out = p32(p64(p64(p64(p16(out, base < 0 ? (int16_t)-base : 0), base), -1), 0), 0);
    } else if (key == FETCH) {
        name = body + 4 + 4 + 4 + 4 + 1 + 4 + 4 + 4;
        int length = i16(name);
        unsigned char *partition = name + 2 + length + 4;
        struct topic *t = find(name + 2, length);
        int64_t from = t ? position_of(t, i64(partition + 8)) : 0, room = i32(partition + 24);
        int64_t bytes = t && t->size - from < room ? t->size - from : t ? room : 0;
        out = p32(p32(p16(p32(out, 0), 0), 0), 1);
        memcpy(out, name, (size_t)length + 2);
        out = p16(p32(p32(out + 2 + length, 1), i32(partition)), t ? 0 : UNKNOWN_TOPIC);
        out = p64(p64(p64(out, t ? t->next_offset : 0), t ? t->next_offset : 0), 0);
        out = p32(p32(p32(out, -1), -1), (int32_t)bytes);
        p32(c->out + c->owed, (int32_t)(out - c->out - (long)c->owed - 4 + bytes));
        c->owed = (size_t)(out - c->out);
        if (t) send_range(c, t, from, bytes);
        return;
    } else {
        name = body + 4;
        int length = i16(name);
        (key == CREATE_TOPICS ? create : delete)(name + 2, length);
        out = p32(p32(out, 0), 1);
        memcpy(out, name, (size_t)length + 2);
        out = p16(out + 2 + length, 0);
        if (key == CREATE_TOPICS) out = p16(out, -1);
    }
    p32(c->out + c->owed, (int32_t)(out - c->out - (long)c->owed - 4));
    c->owed = (size_t)(out - c->out);
    if (c->owed > FRAME / 2) flush(c, 0);
}

/* Whether the connection goes on. */
static int serve(struct connection *c) {
    ssize_t got = recv(c->socket, c->in + c->filled, READ, 0);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    c->filled += (size_t)got;
    size_t at = 0;
    while (c->filled - at >= 4) {
        size_t length = (size_t)i32(c->in + at);
        if (length > FRAME - 4) return 0;
        if (c->filled - at < 4 + length) break;
        answer(c, c->in + at + 4);
        at += 4 + length;
    }
    memmove(c->in, c->in + at, c->filled -= at);
    flush(c, 0);
    return 1;
}

int main(int count, char **words) {
    if (count != 3) { fprintf(stderr, "usage: floor PORT FOLDER\n"); return 2; }
    folder = words[2];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        table[i] = crc;
    }
    int on = 1, listening = socket(AF_INET, SOCK_STREAM, 0), poller = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 128)) fail("listen");
    epoll_ctl(poller, EPOLL_CTL_ADD, listening, &(struct epoll_event){EPOLLIN, {.ptr = NULL}});
    for (;;) {
        struct epoll_event events[64];
        int ready = epoll_wait(poller, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                if (!(c = calloc(1, sizeof *c))) fail("calloc");
                c->socket = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
                if (c->socket < 0) { free(c); continue; }
                setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                epoll_ctl(poller, EPOLL_CTL_ADD, c->socket, &(struct epoll_event){EPOLLIN, {.ptr = c}});
            } else if (!serve(c)) {
                close(c->socket);
                free(c);
            }
        }
    }
}

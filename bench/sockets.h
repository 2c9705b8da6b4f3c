// What the small C programs of the benches have in common: sockets by TCP and of Unix, bytes in network order, clocks.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef SOCKETS_H
#define SOCKETS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// Memory that grows: `length` bytes of it are in use, and begin at `start` where a part has been taken.
struct buffer {
    unsigned char *bytes;
    size_t start, length, room;
};

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

static inline uint32_t word(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void put_word(unsigned char *at, uint32_t value) {
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

static inline double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Room for so many bytes more, behind what is in use.
static inline unsigned char *room(struct buffer *in, size_t more) {
    if (in->start && in->start == in->length) in->start = in->length = 0;
    if (in->length + more > in->room) {
        if (in->start) {
            memmove(in->bytes, in->bytes + in->start, in->length - in->start);
            in->length -= in->start;
            in->start = 0;
        }
        while (in->length + more > in->room) in->room = in->room ? 2 * in->room : 256;
        if (!(in->bytes = realloc(in->bytes, in->room))) fail("realloc");
    }
    return in->bytes + in->length;
}

static inline void append(struct buffer *to, const void *bytes, size_t length) {
    memcpy(room(to, length), bytes, length);
    to->length += length;
}

// Sends what there is and can be sent; false when the other side has gone.
static inline int flush(int to, struct buffer *from) {
    while (from->start < from->length) {
        ssize_t sent = send(to, from->bytes + from->start, from->length - from->start, MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN;
        from->start += (size_t)sent;
    }
    from->start = from->length = 0;
    return 1;
}

// Sends all, however long that takes.
static inline int put(int to, const unsigned char *bytes, size_t length) {
    while (length) {
        ssize_t sent = send(to, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = to, .events = POLLOUT};
            poll(&wait, 1, -1);
            continue;
        }
        if (sent <= 0) return 0;
        bytes += sent;
        length -= (size_t)sent;
    }
    return 1;
}

// The address of a place: a port of 127.0.0.1, or the path of a Unix socket.
static inline socklen_t address_of(const char *place, struct sockaddr_storage *to) {
    memset(to, 0, sizeof *to);
    if (place[0] == '/') {
        struct sockaddr_un *local = (struct sockaddr_un *)to;
        local->sun_family = AF_UNIX;
        strncpy(local->sun_path, place, sizeof local->sun_path - 1);
        return sizeof *local;
    }
    struct sockaddr_in *tcp = (struct sockaddr_in *)to;
    tcp->sin_family = AF_INET;
    tcp->sin_port = htons((uint16_t)atoi(place));
    tcp->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof *tcp;
}

static inline int connected(const char *place) {
    struct sockaddr_storage address;
    socklen_t length = address_of(place, &address);
    int one = 1, made = socket(address.ss_family, SOCK_STREAM, 0);
    if (connect(made, (struct sockaddr *)&address, length)) fail(place);
    if (address.ss_family == AF_INET) setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return made;
}

static inline int listening(const char *place) {
    struct sockaddr_storage address;
    socklen_t length = address_of(place, &address);
    int one = 1, made = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (place[0] == '/') unlink(place);
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(made, (struct sockaddr *)&address, length) || listen(made, 4096)) fail(place);
    return made;
}

// One who has come, or -1.
static inline int accepted(int from) {
    int one = 1, made = accept4(from, NULL, NULL, SOCK_NONBLOCK);
    // On a Unix socket this fails, and nothing is lost.
    if (made >= 0) setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return made;
}

static inline void watch(int poll, int fd, void *whose, uint32_t events, int how) {
    struct epoll_event event = {.events = events, .data.ptr = whose};
    if (epoll_ctl(poll, how, fd, &event)) fail("epoll_ctl");
}

// A startup packet; its length.
static inline size_t startup(unsigned char *to, size_t most, const char *user, const char *database) {
    size_t length = 8;
    memset(to, 0, 8);
    to[5] = 3;
    length += (size_t)snprintf((char *)to + length, most - 8, "user%c%s%cdatabase%c%s%c", 0, user, 0, 0, database, 0);
    length += 1;
    put_word(to, (uint32_t)length);
    return length;
}

#endif

// The least that a client of PostgreSQL can do, for the drivers' benches: sends requests that were made beforehand and
// reads of the answers only the messages' headers; so it is the load generator where a pooler is to be the limit. Usage:
//
//   floor PLACE USER DATABASE CONNECTIONS DEPTH SECONDS SETUP REQUEST
//
// PLACE is a port of 127.0.0.1 or the path of a Unix socket.
// SETUP and REQUEST are files of segments: a length (4 bytes, big-endian) and bytes that the server answers with one
// ReadyForQuery. Each connection sends SETUP once; then again and again the segments of REQUEST, each when the one
// before is answered, DEPTH of them at a time where there is only one. Prints operations a second, microseconds of CPU an
// operation, and what the slowest connection got in parts of the mean. The user needs no password.

#include "sockets.h"

enum { SPACE = 256 * 1024 };

struct segments {
    int count;
    unsigned char *bytes[64];
    uint32_t length[64];
};

struct connection {
    int socket;
    int next;           // the segment to be sent next
    long done;
    uint32_t skip;      // of the message that is being read
    unsigned have;      // bytes of the header that is being read
    unsigned char head[5];
};

static unsigned char space[SPACE];

static struct segments load(const char *path) {
    struct segments found = {0};
    FILE *file = fopen(path, "rb");
    unsigned char head[4];
    if (!file) fail(path);
    while (fread(head, 1, 4, file) == 4) {
        uint32_t length = word(head);
        unsigned char *bytes = malloc(length);
        if (!bytes || found.count == 64 || fread(bytes, 1, length, file) != length) fail("segment");
        found.bytes[found.count] = bytes;
        found.length[found.count++] = length;
    }
    fclose(file);
    return found;
}

static void say(int to, const unsigned char *bytes, size_t length) {
    if (!put(to, bytes, length)) fail("send");
}

// Reads once; how many ReadyForQuery came.
static int take(struct connection *from) {
    ssize_t got = recv(from->socket, space, SPACE, 0);
    unsigned char *at = space, *end;
    int ready = 0;
    if (got <= 0) fail("recv");
    end = space + got;
    while (at < end) {
        if (from->skip) {
            size_t here = (size_t)(end - at) < from->skip ? (size_t)(end - at) : from->skip;
            at += here;
            from->skip -= here;
            continue;
        }
        const unsigned char *head = at;
        if (from->have || end - at < 5) {
            while (from->have < 5 && at < end) from->head[from->have++] = *at++;
            if (from->have < 5) break;
            from->have = 0;
            head = from->head;
        } else {
            at += 5;
        }
        from->skip = word(head + 1) - 4;
        if (head[0] == 'Z') ready++;
        if (head[0] == 'E') {
            fprintf(stderr, "the server answered with an error: %.*s\n", (int)(end - at), (char *)at);
            exit(1);
        }
    }
    return ready;
}

static void wait_for(struct connection *from, int wanted) {
    while (wanted > 0) wanted -= take(from);
}

static struct connection opened(const char *place, const char *user, const char *database) {
    struct connection made = {.socket = connected(place)};
    unsigned char start[512];
    say(made.socket, start, startup(start, sizeof start, user, database));
    wait_for(&made, 1);
    return made;
}

int main(int argc, char **argv) {
    struct connection *all;
    struct segments setup, request;
    struct epoll_event events[64];
    int count, depth, poll = -1, under_way = 0;
    long done = 0, least;
    double wall, cpu, end;
    if (argc != 9) return 2;
    count = atoi(argv[4]);
    depth = atoi(argv[5]);
    setup = load(argv[7]);
    request = load(argv[8]);
    if (request.count != 1 && depth != 1) return 2;
    all = calloc((size_t)count, sizeof *all);
    if (count > 1) poll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        all[i] = opened(argv[1], argv[2], argv[3]);
        for (int j = 0; j < setup.count; j++) {
            say(all[i].socket, setup.bytes[j], setup.length[j]);
            wait_for(&all[i], 1);
        }
        if (count > 1) {
            watch(poll, all[i].socket, &all[i], EPOLLIN, EPOLL_CTL_ADD);
        }
    }
    wall = seconds(CLOCK_MONOTONIC);
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    end = wall + atof(argv[6]);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < depth; j++, under_way++) say(all[i].socket, request.bytes[0], request.length[0]);
        all[i].next = 1 % request.count;
    }
    while (under_way) {
        int ready = 1;
        if (count > 1) {
            ready = epoll_wait(poll, events, 64, -1);
        } else {
            events[0].data.ptr = &all[0];
        }
        for (int i = 0; i < ready; i++) {
            struct connection *one = events[i].data.ptr;
            int answered = take(one);
            size_t together = 0;
            for (; answered; answered--) {
                if (one->next == 0) one->done++;
                if (one->next == 0 && seconds(CLOCK_MONOTONIC) >= end) {
                    under_way--;
                    continue;
                }
                if (together + request.length[one->next] > SPACE && together) {
                    say(one->socket, space, together);
                    together = 0;
                }
                if (request.length[one->next] > SPACE) {
                    say(one->socket, request.bytes[one->next], request.length[one->next]);
                } else {
                    // What has been read is done with: its memory gathers what is sent together.
                    memcpy(space + together, request.bytes[one->next], request.length[one->next]);
                    together += request.length[one->next];
                }
                one->next = (one->next + 1) % request.count;
            }
            if (together) say(one->socket, space, together);
        }
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    least = all[0].done;
    for (int i = 0; i < count; i++) {
        done += all[i].done;
        if (all[i].done < least) least = all[i].done;
    }
    printf("%.6g %.6g %.4g\n", (double)done / wall, cpu / (double)done * 1e6, (double)least * count / (double)done);
    return 0;
}

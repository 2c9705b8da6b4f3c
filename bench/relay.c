// The floor of what a pooler can cost: clients' requests over two server connections, one behind the other, and nothing
// else. It looks at no statement, keeps no session, knows no transaction, and trusts that each request is one Query or
// ends with one Sync. Usage:
//
//   relay PORT FOLDER SERVER USER DATABASE
//
// It listens at 127.0.0.1:PORT and at FOLDER/.s.PGSQL.PORT, and lets anyone in with what the server has said to itself.
// SERVER is a port of 127.0.0.1 or the path of a Unix socket, and must ask no password of USER. A client's requests all
// go over one of the two connections: a Parse with a name that has been sent there already is answered here.

#include "sockets.h"

enum { SERVERS = 2, READ = 65536, EVENTS = 256, QUEUE = 65536, KNOWN = 64 };
enum role { LISTENER, CLIENT, SERVER };

struct end {
    enum role role;
    int socket, entered, gone, owed, is_touched;
    struct buffer in, out;
    struct end *next_touched;
    struct server *server;
};

struct server {
    struct end end;
    struct end *queue[QUEUE]; // whose answers come next
    unsigned first, last;
    struct buffer known[KNOWN]; // Parse with a name, as they were sent
    int knows;
};

static struct server servers[SERVERS];
static struct end *touched; // clients that have something to be sent
static struct buffer greeting;
static unsigned char scratch[READ]; // a client's own memory is small, so that a thousand stay in the cache
static int poller;

static void release(struct end *client) {
    if (!client->gone || client->owed || client->is_touched) return;
    free(client->in.bytes);
    free(client->out.bytes);
    free(client);
}

static void leave(struct end *client) {
    close(client->socket);
    client->gone = 1;
}

static void answer(struct end *client, const void *bytes, size_t length) {
    append(&client->out, bytes, length);
    if (client->is_touched) return;
    client->is_touched = 1;
    client->next_touched = touched;
    touched = client;
}

// What has come together is sent together.
static void tell_clients(void) {
    while (touched) {
        struct end *client = touched;
        touched = client->next_touched;
        client->is_touched = 0;
        // One that cannot be reached any more is heard of by its own event.
        if (!client->gone) flush(client->socket, &client->out);
        release(client);
    }
}

// Whether the request is a Parse that this connection has had; one that is new is noted.
static int is_known(struct server *server, const unsigned char *at, size_t length) {
    size_t parse = 1 + word(at + 1);
    if (at[0] != 'P' || at[5] == 0 || parse + 5 != length) return 0;
    for (int i = 0; i < server->knows; i++) {
        if (server->known[i].length == parse && memcmp(server->known[i].bytes, at, parse) == 0) return 1;
    }
    if (server->knows < KNOWN) append(&server->known[server->knows++], at, parse);
    return 0;
}

// What a client says, request by request; false when it has gone.
static int hear(struct end *client) {
    struct buffer *in = &client->in;
    struct server *to = client->server;
    ssize_t got = recv(client->socket, scratch, READ, 0);
    if (got < 0 && errno == EAGAIN) return 1;
    if (got <= 0) return 0;
    append(in, scratch, (size_t)got);
    for (size_t at = in->start; in->length - at >= 5;) {
        unsigned char *head = in->bytes + at;
        size_t whole = client->entered ? 1 + word(head + 1) : word(head);
        if (in->length - at < whole) break;
        at += whole;
        if (!client->entered) {
            in->start = at;
            if (word(head + 4) >> 16 != 3) {
                if (word(head + 4) == 80877102) return 0;
                answer(client, "N", 1); // no TLS
            } else {
                client->entered = 1;
                answer(client, greeting.bytes, greeting.length);
            }
        } else if (head[0] == 'X') {
            return 0;
        } else if (head[0] == 'Q' || head[0] == 'S') {
            unsigned char *request = in->bytes + in->start;
            size_t length = at - in->start;
            in->start = at;
            if (is_known(to, request, length)) {
                answer(client, "1\0\0\0\4Z\0\0\0\5I", 11);
                continue;
            }
            append(&to->end.out, request, length);
            to->queue[to->last++ % QUEUE] = client;
            client->owed++;
        }
    }
    if (in->start == in->length) in->start = in->length = 0;
    return 1;
}

// What a server answers: up to each ReadyForQuery it is the next client's.
static void forward(struct server *from) {
    struct buffer *in = &from->end.in;
    ssize_t got = recv(from->end.socket, room(in, READ), READ, 0);
    if (got <= 0) fail("the server has gone");
    in->length += (size_t)got;
    for (size_t at = in->start; in->length - at >= 5;) {
        size_t whole = 1 + word(in->bytes + at + 1);
        if (in->length - at < whole) break;
        at += whole;
        if (in->bytes[at - whole] != 'Z') continue;
        struct end *client = from->queue[from->first++ % QUEUE];
        client->owed--;
        answer(client, in->bytes + in->start, at - in->start);
        in->start = at;
    }
    if (in->start == in->length) in->start = in->length = 0;
}

static void log_in(struct server *made, const char *place, const char *user, const char *database) {
    unsigned char packet[512];
    struct buffer said = {0};
    made->end.role = SERVER;
    made->end.socket = connected(place);
    put(made->end.socket, packet, startup(packet, sizeof packet, user, database));
    while (said.length < 6 || memcmp(said.bytes + said.length - 6, "Z\0\0\0\5I", 6) != 0) {
        ssize_t got = recv(made->end.socket, room(&said, READ), READ, 0);
        if (got <= 0 || said.bytes[0] == 'E') fail("login");
        said.length += (size_t)got;
    }
    greeting = said;
    watch(poller, made->end.socket, &made->end, EPOLLIN, EPOLL_CTL_ADD);
}

static struct end *opened(int socket, enum role role) {
    static unsigned number;
    struct end *made = calloc(1, sizeof *made);
    made->role = role;
    made->socket = socket;
    made->server = &servers[number++ % SERVERS];
    watch(poller, socket, made, EPOLLIN, EPOLL_CTL_ADD);
    return made;
}

int main(int argc, char **argv) {
    struct epoll_event events[EVENTS];
    char path[200];
    if (argc != 6) return fprintf(stderr, "usage: relay PORT FOLDER SERVER USER DATABASE\n"), 2;
    poller = epoll_create1(0);
    for (int i = 0; i < SERVERS; i++) log_in(&servers[i], argv[3], argv[4], argv[5]);
    snprintf(path, sizeof path, "%s/.s.PGSQL.%s", argv[2], argv[1]);
    opened(listening(argv[1]), LISTENER);
    opened(listening(path), LISTENER);
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            struct end *one = events[i].data.ptr;
            if (one->role == SERVER) {
                forward((struct server *)one);
            } else if (one->role == CLIENT) {
                if (!hear(one)) leave(one);
                release(one);
            } else {
                for (int made; (made = accepted(one->socket)) >= 0;) opened(made, CLIENT);
            }
        }
        tell_clients();
        // What does not go now goes when an answer has come.
        for (int i = 0; i < SERVERS; i++) {
            if (!flush(servers[i].end.socket, &servers[i].end.out)) fail("the server has gone");
        }
    }
}

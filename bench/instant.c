// A server that answers at once, so that what stands before it is the limit: PostgreSQL's protocol, and no database.
//
//   instant PORT [FOLDER [REAL]]
//
// It listens at 127.0.0.1:PORT and, with FOLDER, at FOLDER/.s.PGSQL.PORT; anyone is let in. Any SELECT gives one row with
// the int4 1; BEGIN, COMMIT and ROLLBACK change the status that ReadyForQuery tells; SET and RESET of a parameter that a
// server reports are reported; the other statements in `WORDS` are told to have been done. Both protocols; what one read
// brings is answered by one write. One thread.
//
// A connection whose application_name begins with "howdah " asks what only a database knows (the pooler reads the
// catalog over it): it is handed on, byte by byte, to the real server at REAL, the path of its Unix socket.

#include "sockets.h"

#include <strings.h>

enum { BUCKETS = 64, READ = 65536, EVENTS = 256 };
enum kind { EMPTY, ROW, BEGIN, COMMIT, ROLLBACK, SET, RESET, OTHER, UNKNOWN };

// What a statement begins with, what it is, and the tag of its answer.
static const struct word {
    const char *text;
    enum kind kind;
    const char *tag;
} WORDS[] = {
    {"SELECT", ROW, "SELECT 1"},      {"BEGIN", BEGIN, "BEGIN"},         {"START", BEGIN, "START TRANSACTION"},
    {"COMMIT", COMMIT, "COMMIT"},     {"END", COMMIT, "COMMIT"},         {"ROLLBACK", ROLLBACK, "ROLLBACK"},
    {"ABORT", ROLLBACK, "ROLLBACK"},  {"SET", SET, "SET"},               {"RESET", RESET, "RESET"},
    {"UPDATE", OTHER, "UPDATE 1"},    {"INSERT", OTHER, "INSERT 0 1"},   {"DELETE", OTHER, "DELETE 1"},
    {"DISCARD", OTHER, "DISCARD"},    {"DEALLOCATE", OTHER, "DEALLOCATE ALL"},
    {"CLOSE", OTHER, "CLOSE CURSOR ALL"}, {"UNLISTEN", OTHER, "UNLISTEN"}, {"", EMPTY, ""},
};
static const struct word NO_WORD = {"", UNKNOWN, ""};

// What a server of version 18 reports at login, `user` being told for session_authorization.
enum { REPORTED = 15 };
static const char *const NAMES[REPORTED] = {
    "server_version", "server_encoding",  "client_encoding",  "application_name", "DateStyle",
    "TimeZone",       "integer_datetimes", "IntervalStyle",   "is_superuser",     "in_hot_standby",
    "search_path",    "scram_iterations",  "default_transaction_read_only", "standard_conforming_strings",
    "session_authorization",
};
static const char *const VALUES[REPORTED] = {
    "18.4", "UTF8", "UTF8", "", "ISO, MDY", "UTC", "on", "postgres", "on", "off", "\"$user\", public", "4096", "off", "on", "postgres",
};

// A prepared statement or a portal, by its name.
struct prepared {
    struct prepared *next;
    char *name;
    const struct word *word;
    char *text; // of SET and RESET
    int parameters, binary;
};

struct connection {
    int socket, is_listener, entered, skipping, blocked, dead;
    char status;
    struct connection *other; // the other end of what is handed on
    struct buffer in, out;
    char *at_login[REPORTED], *values[REPORTED];
    struct prepared *statements[BUCKETS], *portals[BUCKETS];
    struct connection *next_dead;
};

static int poller;
static const char *real;
static struct connection *dead;
static struct buffer answer; // to what is being read
static unsigned char scratch[READ];

static void message(char tag, const void *body, size_t length) {
    unsigned char *at = room(&answer, length + 5);
    at[0] = (unsigned char)tag;
    put_word(at + 1, (uint32_t)length + 4);
    if (length) memcpy(at + 5, body, length);
    answer.length += length + 5;
}

static void complain(struct connection *to, const char *code, const char *what) {
    char body[256];
    int length = snprintf(body, sizeof body, "SERROR%cVERROR%cC%s%cM%s%c", 0, 0, code, 0, what, 0);
    message('E', body, (size_t)length + 1);
    if (to->status == 'T') to->status = 'E';
}

static void report(const char *name, const char *value) {
    char body[1024];
    int length = snprintf(body, sizeof body, "%s%c%s", name, 0, value);
    if (length < (int)sizeof body) message('S', body, (size_t)length + 1);
}

static void become(struct connection *whose, int place, const char *value) {
    if (strcmp(whose->values[place], value) == 0) return;
    free(whose->values[place]);
    whose->values[place] = strdup(value);
    report(NAMES[place], value);
}

// The word that a statement begins with.
static const struct word *word_of(const char *text, size_t length) {
    while (length && strchr(" \t\r\n", *text)) text++, length--;
    for (const struct word *one = WORDS;; one++) {
        size_t wanted = strlen(one->text);
        if (wanted == 0) return length ? &NO_WORD : one;
        if (length >= wanted && strncasecmp(text, one->text, wanted) == 0) return one;
    }
}

// `SET [SESSION] name {=|TO} value, ...` or `RESET {name|ALL}`, as far as what is reported.
static void assign(struct connection *whose, const char *text, size_t length) {
    char copy[1024], value[1024], *name, *at = copy, *to = value;
    if (length >= sizeof copy) return;
    memcpy(copy, text, length);
    copy[length] = 0;
    int resets = *(at += strspn(at, " \t\r\n")) == 'R' || *at == 'r';
    at += strcspn(at, " ");
    at += strspn(at, " ");
    if (strncasecmp(at, "SESSION ", 8) == 0) at += 8;
    name = at;
    at += strcspn(at, " =");
    int is_to = *at == ' ' && strncasecmp(at, " TO ", 4) == 0;
    if (*at) *at++ = 0;
    if (is_to) at += 3;
    at += strspn(at, " =");
    // Each name of a list without its quotes.
    for (char quote = 0; *at; at++) {
        if (*at == quote) quote = 0;
        else if (!quote && *at == '\'') quote = *at;
        else *to++ = *at;
    }
    *to = 0;
    for (int i = 0; i < REPORTED; i++) {
        int all = resets && strcasecmp(name, "ALL") == 0;
        if (!all && strcasecmp(name, NAMES[i]) != 0) continue;
        become(whose, i, resets || strcasecmp(value, "DEFAULT") == 0 ? whose->at_login[i] : value);
    }
}

static void describe(int binary) {
    unsigned char body[] = "\0\1value\0\0\0\0\0\0\0\0\0\0\27\0\4\377\377\377\377\0\0";
    body[sizeof body - 2] = (unsigned char)binary;
    message('T', body, sizeof body - 1);
}

// Runs a statement; false where it fails.
static int run(struct connection *whose, const struct word *word, const char *text, size_t length, int binary) {
    if (word->kind == UNKNOWN) return complain(whose, "42601", "the instant server does not know this statement"), 0;
    if (whose->status == 'E' && word->kind != COMMIT && word->kind != ROLLBACK)
        return complain(whose, "25P02", "current transaction is aborted"), 0;
    const char *tag = word->tag;
    switch (word->kind) {
    case EMPTY: return message('I', NULL, 0), 1;
    case ROW:
        if (binary) message('D', "\0\1\0\0\0\4\0\0\0\1", 10);
        else message('D', "\0\1\0\0\0\1\61", 7);
        break;
    case BEGIN: whose->status = 'T'; break;
    case COMMIT:
        if (whose->status == 'E') tag = "ROLLBACK";
        // fall through
    case ROLLBACK: whose->status = 'I'; break;
    case SET:
    case RESET: assign(whose, text, length); break;
    default: break;
    }
    message('C', tag, strlen(tag) + 1);
    return 1;
}

// The statements of a simple query, told apart at semicolons outside of quotes.
static void query(struct connection *whose, const char *text, size_t length) {
    const char *end = text + length;
    int many = 0;
    while (text < end) {
        const char *stop = text;
        for (char quote = 0; stop < end && (quote || *stop != ';'); stop++) {
            if (*stop == quote) quote = 0;
            else if (!quote && (*stop == '\'' || *stop == '"')) quote = *stop;
        }
        const struct word *word = word_of(text, (size_t)(stop - text));
        if (word->kind != EMPTY) {
            if (word->kind == ROW && whose->status != 'E') describe(0);
            many = 1;
            if (!run(whose, word, text, (size_t)(stop - text), 0)) return;
        }
        text = stop + 1;
    }
    if (!many) message('I', NULL, 0);
}

static struct prepared **place_of(struct prepared **table, const char *name) {
    uint32_t hash = 2166136261u;
    for (const char *at = name; *at; at++) hash = (hash ^ (unsigned char)*at) * 16777619u;
    struct prepared **at = &table[hash % BUCKETS];
    while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
    return at;
}

static void forget(struct prepared **at) {
    struct prepared *gone = *at;
    if (!gone) return;
    *at = gone->next;
    free(gone->name);
    free(gone->text);
    free(gone);
}

static struct prepared *keep(struct prepared **table, const char *name, const struct word *word, const char *text) {
    struct prepared **at = place_of(table, name);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        (*at)->name = strdup(name);
    }
    char *kept = text && (word->kind == SET || word->kind == RESET) ? strdup(text) : NULL;
    free((*at)->text);
    (*at)->word = word;
    (*at)->text = kept;
    return *at;
}

static int unknown(struct connection *whose, const char *code, const char *what) {
    complain(whose, code, what);
    whose->skipping = 1;
    return 1;
}

// One message; false when the connection is to end. Bodies are trusted to be whole, as a pooler's are.
static int hear(struct connection *whose, char tag, const unsigned char *body, size_t length) {
    const char *name = (const char *)body, *second;
    struct prepared *found;
    if (whose->skipping && tag != 'S' && tag != 'X') return 1;
    switch (tag) {
    case 'Q':
        query(whose, name, length - 1);
        return message('Z', &whose->status, 1), 1;
    case 'S':
        whose->skipping = 0;
        return message('Z', &whose->status, 1), 1;
    case 'P':
        second = name + strlen(name) + 1;
        found = keep(whose->statements, name, word_of(second, strlen(second)), second);
        found->parameters = 0;
        for (const char *at = second; (at = strchr(at, '$'));) {
            int number = atoi(++at);
            if (number > found->parameters) found->parameters = number;
        }
        return message('1', NULL, 0), 1;
    case 'B': {
        second = name + strlen(name) + 1;
        const unsigned char *at = (const unsigned char *)second + strlen(second) + 1;
        found = *place_of(whose->statements, second);
        if (!found) return unknown(whose, "26000", "prepared statement does not exist");
        at += 2 + 2 * (at[0] << 8 | at[1]);
        int count = at[0] << 8 | at[1];
        for (at += 2; count; count--) at += 4 + (word(at) == UINT32_MAX ? 0 : word(at));
        int formats = at[0] << 8 | at[1];
        keep(whose->portals, name, found->word, found->text)->binary = formats && at[3];
        return message('2', NULL, 0), 1;
    }
    case 'D':
        found = *place_of(name[0] == 'S' ? whose->statements : whose->portals, name + 1);
        if (!found) return unknown(whose, name[0] == 'S' ? "26000" : "34000", "there is none of this name");
        if (name[0] == 'S') {
            unsigned char types[2 + 4 * 64] = {0};
            int count = found->parameters < 64 ? found->parameters : 64;
            types[1] = (unsigned char)count;
            for (int i = 0; i < count; i++) types[2 + 4 * i + 3] = 23;
            message('t', types, 2 + 4 * (size_t)count);
        }
        if (found->word->kind == ROW) describe(found->binary);
        else message('n', NULL, 0);
        return 1;
    case 'E':
        found = *place_of(whose->portals, name);
        if (!found) return unknown(whose, "34000", "portal does not exist");
        second = found->text ? found->text : "";
        if (!run(whose, found->word, second, strlen(second), found->binary)) whose->skipping = 1;
        return 1;
    case 'C':
        forget(place_of(name[0] == 'S' ? whose->statements : whose->portals, name + 1));
        return message('3', NULL, 0), 1;
    case 'H': return 1;
    case 'X': return 0;
    default: return unknown(whose, "08P01", "the instant server does not know this message");
    }
}

static void leave(struct connection *whose) {
    if (whose->dead) return;
    whose->dead = 1;
    close(whose->socket);
    whose->next_dead = dead;
    dead = whose;
    if (whose->other) leave(whose->other);
}

static void bury(void) {
    while (dead) {
        struct connection *gone = dead;
        dead = gone->next_dead;
        for (int i = 0; i < REPORTED; i++) free(gone->at_login[i]), free(gone->values[i]);
        for (int i = 0; i < BUCKETS; i++) {
            while (gone->statements[i]) forget(&gone->statements[i]);
            while (gone->portals[i]) forget(&gone->portals[i]);
        }
        free(gone->in.bytes);
        free(gone->out.bytes);
        free(gone);
    }
}

static struct connection *begin(int socket, int is_listener) {
    struct connection *made = calloc(1, sizeof *made);
    made->socket = socket;
    made->is_listener = is_listener;
    made->status = 'I';
    watch(poller, socket, made, EPOLLIN, EPOLL_CTL_ADD);
    return made;
}

// A startup packet; false when the connection is to end.
static int enter(struct connection *whose, const unsigned char *packet, size_t length) {
    uint32_t code = word(packet + 4);
    if (code == 80877103 || code == 80877104) return append(&answer, "N", 1), 1;
    if (code >> 16 != 3) return 0; // a cancel request: whatever it means is done already
    const char *at = (const char *)packet + 8, *end = (const char *)packet + length - 1;
    for (int i = 0; i < REPORTED; i++) whose->at_login[i] = strdup(VALUES[i]);
    while (at < end && *at) {
        const char *name = at, *value = at + strlen(at) + 1;
        at = value + strlen(value) + 1;
        if (strcmp(name, "user") == 0) name = "session_authorization";
        if (real && strcmp(name, "application_name") == 0 && strncmp(value, "howdah ", 7) == 0) {
            whose->other = begin(connected(real), 0);
            whose->other->other = whose;
            return put(whose->other->socket, packet, length);
        }
        for (int i = 0; i < REPORTED; i++) {
            if (strcasecmp(name, NAMES[i]) != 0) continue;
            free(whose->at_login[i]);
            whose->at_login[i] = strdup(value);
        }
    }
    static uint32_t number;
    unsigned char key[8];
    put_word(key, ++number);
    put_word(key + 4, number * 2654435761u);
    message('R', "\0\0\0\0", 4);
    for (int i = 0; i < REPORTED; i++) {
        whose->values[i] = strdup(whose->at_login[i]);
        report(NAMES[i], whose->values[i]);
    }
    message('K', key, sizeof key);
    message('Z', &whose->status, 1);
    whose->entered = 1;
    return 1;
}

// Everything that is there of a connection; false when it has ended.
static int take(struct connection *from) {
    struct buffer *in = &from->in;
    ssize_t got = recv(from->socket, room(in, READ), READ, 0);
    if (got < 0 && errno == EAGAIN) return 1;
    if (got <= 0) return 0;
    in->length += (size_t)got;
    for (;;) {
        const unsigned char *at = in->bytes + in->start;
        size_t have = in->length - in->start, head = from->entered ? 1 : 0;
        if (have < head + 4 || have < head + word(at + head)) break;
        size_t whole = head + word(at + head);
        in->start += whole;
        if (!(head ? hear(from, (char)at[0], at + 5, whole - 5) : enter(from, at, whole))) return 0;
    }
    if (in->start == in->length) in->start = in->length = 0;
    if (answer.length) {
        ssize_t sent = send(from->socket, answer.bytes, answer.length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return 0;
        if (sent < 0) sent = 0;
        if ((size_t)sent < answer.length) {
            append(&from->out, answer.bytes + sent, answer.length - (size_t)sent);
            from->blocked = 1;
            watch(poller, from->socket, from, EPOLLOUT, EPOLL_CTL_MOD);
        }
    }
    return 1;
}

static int hand_on(struct connection *from) {
    ssize_t got = recv(from->socket, scratch, READ, 0);
    if (got < 0 && errno == EAGAIN) return 1;
    return got > 0 && put(from->other->socket, scratch, (size_t)got);
}

static int ready(struct connection *one) {
    if (one->other) return hand_on(one);
    if (!one->blocked) return take(one);
    if (!flush(one->socket, &one->out)) return 0;
    if (one->out.length) return 1;
    one->blocked = 0;
    watch(poller, one->socket, one, EPOLLIN, EPOLL_CTL_MOD);
    return 1;
}

int main(int argc, char **argv) {
    struct epoll_event events[EVENTS];
    char path[200];
    if (argc < 2 || argc > 4) return fprintf(stderr, "usage: instant PORT [FOLDER [REAL]]\n"), 2;
    poller = epoll_create1(0);
    begin(listening(argv[1]), 1);
    if (argc > 2) {
        snprintf(path, sizeof path, "%s/.s.PGSQL.%s", argv[2], argv[1]);
        begin(listening(path), 1);
    }
    real = argc > 3 ? argv[3] : NULL;
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            struct connection *one = events[i].data.ptr;
            answer.length = 0;
            if (one->is_listener) {
                for (int made; (made = accepted(one->socket)) >= 0;) begin(made, 0);
            } else if (!one->dead && !ready(one)) {
                leave(one);
            }
        }
        bury();
    }
}

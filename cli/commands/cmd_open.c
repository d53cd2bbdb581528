/* `meridian open FILE|DIR`: serves one profile on 127.0.0.1 so that the page ui.perfetto.dev can
 * fetch it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/conf/json.h"
#include "base/obj.h"
#include "cli/cli.h"
#include "trace/import/import.h"

typedef struct {
    int64_t port;
    bool keep;
} settings;

#define AT(member) .offset = offsetof(settings, member)

static const mrd_opt table[] = {
    { .name = "port",
      .type = MRD_OPT_INT,
      AT(port),
      .def = "9001",
      .min = 1,
      .max = 65535,
      .arg = "N",
      .help = "port on 127.0.0.1; ui.perfetto.dev may only fetch from 9001" },
    { .name = "keep",
      .type = MRD_OPT_BOOL,
      AT(keep),
      .help = "go on serving after the first download" },
};

static const char more[] =
    "A folder stands for the system_profile.pftrace in it.\n"
    "The file is served to this machine only, with the headers the page needs, until it was "
    "fetched once.\n"
    "From another machine: ssh -L 9001:127.0.0.1:9001 HOST, then open the link there.\n"
    "Safari refuses plain http from 127.0.0.1; drop the file on the page instead.\n";

typedef struct {
    int fd, wake; /* descriptor of the file; pipe with one byte for each completed download */
    uint64_t size;
    char path[1024]; /* URL path of the file: "/name", percent-encoded */
} serving;

/* State of a request: seen once, or the file is being sent. */
enum { REQ_SEEN = 1, REQ_FILE = 2 };

static void
allow_page(struct MHD_Response *response)
{
    MHD_add_response_header(response, "Access-Control-Allow-Origin", "https://ui.perfetto.dev");
    MHD_add_response_header(response, "Access-Control-Allow-Private-Network", "true");
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, HEAD, OPTIONS");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "Vary", "Origin");
}

static enum MHD_Result
answer(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
       const char *version, const char *upload, size_t *upload_size, void **state)
{
    serving *s = cls;
    struct MHD_Response *response;
    enum MHD_Result queued;
    unsigned status = MHD_HTTP_NOT_FOUND;
    bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;

    (void) version;
    (void) upload;
    if (*state == NULL) {
        *state = (void *) (intptr_t) REQ_SEEN;
        return MHD_YES;
    }
    if (*upload_size > 0) { /* a body is received and ignored */
        *upload_size = 0;
        return MHD_YES;
    }
    if (get && strcmp(url, s->path) == 0) {
        int fd = dup(s->fd);

        response = fd < 0 ? NULL : MHD_create_response_from_fd_at_offset64(s->size, fd, 0);
        if (response == NULL && fd >= 0)
            close(fd);
        if (response != NULL)
            MHD_add_response_header(response, "Content-Type", "application/octet-stream");
        if (strcmp(method, "GET") == 0)
            *state = (void *) (intptr_t) REQ_FILE;
        status = MHD_HTTP_OK;
    } else {
        if (strcmp(method, "OPTIONS") == 0)
            status = MHD_HTTP_NO_CONTENT;
        /* the page tries POST /status, to find a trace processor on this machine */
        else if (!get)
            status = MHD_HTTP_NOT_FOUND;
        response =
            MHD_create_response_from_buffer(0, (void *) (uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    }
    if (response == NULL)
        return MHD_NO;
    allow_page(response);
    queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static void
completed(void *cls, struct MHD_Connection *connection, void **state,
          enum MHD_RequestTerminationCode how)
{
    serving *s = cls;

    (void) connection;
    if (*state == (void *) (intptr_t) REQ_FILE && how == MHD_REQUEST_TERMINATED_COMPLETED_OK &&
        write(s->wake, "", 1) != 1)
        return; /* a full pipe already wakes the main thread */
}

/* Makes a URL path like "/trace.pftrace" from the last component of a file path. */
static void
url_path(const char *path, char *to, size_t size)
{
    static const char hex[] = "0123456789ABCDEF";
    const char *base = strrchr(path, '/');
    size_t at = 0;

    to[at++] = '/';
    for (const char *c = base == NULL ? path : base + 1; *c != '\0' && at + 4 < size; c++) {
        bool plain = (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z') ||
                     strchr("-._~", *c) != NULL;

        if (plain) {
            to[at++] = *c;
        } else {
            to[at++] = '%';
            to[at++] = hex[(unsigned char) *c >> 4];
            to[at++] = hex[(unsigned char) *c & 15];
        }
    }
    to[at] = '\0';
}

/* Gets the file to serve: the file that the argument names or, for a directory, the system profile
 * in it. */
static mrd_err
path_of(const char *word, mrd_buf *path, mrd_why *why)
{
    struct stat st;
    bool folder = stat(word, &st) == 0 && S_ISDIR(st.st_mode);

    mrd_buf_text(path, word);
    if (folder)
        mrd_buf_text(path, "/system_profile.pftrace");
    if (path->err == MRD_OK && folder && access(mrd_buf_cstr(path), F_OK) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, 0,
                           "'%s' has no system_profile.pftrace: name a .pftrace file", word);
    return path->err;
}

/* Prints a note if the page probably cannot read the file. This is not an error, because the page
 * also reads formats that this program does not know, such as a zip file of traces. */
static void
say_unknown(int fd, const char *path)
{
    char head[MRD_PROBE_BYTES];
    ssize_t n = pread(fd, head, sizeof(head), 0);
    mrd_str text = { head, n > 0 ? (size_t) n : 0 };
    bool packed = n >= 2 && (memcmp(head, "\x1f\x8b", 2) == 0 || memcmp(head, "PK", 2) == 0);

    if (n > 0 && !packed && mrd_import_detect(text, path) == NULL)
        fprintf(stderr, "note: '%s' is of no format that Meridian knows; the page may refuse it\n",
                path);
}

static mrd_err
open_file(const char *path, serving *s, mrd_why *why)
{
    struct stat st;

    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "cannot open '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return mrd_why_set(why, MRD_INVALID, 0, "'%s' is %s", path,
                           S_ISREG(st.st_mode) ? "empty" : "not a file");
    s->size = (uint64_t) st.st_size;
    say_unknown(s->fd, path);
    url_path(path, s->path, sizeof(s->path));
    return MRD_OK;
}

/* Waits until a download completes (unless `keep`), or for a signal. */
static void
wait_for_page(const settings *set, int downloads, int signals)
{
    struct pollfd fds[2] = { { .fd = downloads, .events = POLLIN },
                             { .fd = signals, .events = POLLIN } };
    char done;

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        if ((fds[1].revents & POLLIN) != 0)
            return;
        if ((fds[0].revents & POLLIN) != 0 && read(downloads, &done, 1) == 1) {
            printf("Fetched.\n");
            fflush(stdout);
            if (!set->keep)
                return;
        }
    }
}

/* Prints a note if this trace was split and continues in other files. */
static void
tell_parts(const char *path)
{
    const char *suffix = ".pftrace";
    size_t len = strlen(path), tail = strlen(suffix);
    mrd_buf index = { 0 };
    mrd_json *doc = NULL;

    if (len > tail && strcmp(path + len - tail, suffix) == 0) {
        len -= tail;
        /* remove the number of a split trace, as in X.2.pftrace */
        for (size_t i = len; i-- > 0 && path[i] >= '0' && path[i] <= '9';) {
            if (i > 0 && path[i - 1] == '.')
                len = i - 1;
        }
    }
    mrd_buf_add(&index, path, len);
    mrd_buf_text(&index, ".parts.json");
    if (index.err == MRD_OK && mrd_json_load(mrd_buf_cstr(&index), &doc, NULL) == MRD_OK)
        fprintf(
            stderr,
            "note: the trace is split by time into %zu files, and this is one of them; each opens "
            "alone, %s says which has what\n",
            mrd_json_size(mrd_json_get(doc, "parts")), mrd_buf_cstr(&index));
    mrd_json_free(doc);
    mrd_buf_fini(&index);
}

static int
serve(void *self, const mrd_strlist *words)
{
    const settings *set = self;
    mrd_buf path = { 0 };
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t) set->port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    serving s = { .fd = -1, .wake = -1 };
    struct MHD_Daemon *daemon = NULL;
    mrd_why why = { 0 };
    sigset_t stop;
    int wake[2] = { -1, -1 }, signals = -1, status = MRD_EXIT_FAILED;

    if (path_of(words->v[0], &path, &why) != MRD_OK ||
        open_file(mrd_buf_cstr(&path), &s, &why) != MRD_OK)
        goto out;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    signals = signalfd(-1, &stop, SFD_CLOEXEC);
    if (signals < 0 || pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) {
        mrd_why_set(&why, MRD_IO, errno, "starting");
        goto out;
    }
    s.wake = wake[1];
    daemon = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD, (uint16_t) set->port, NULL, NULL,
                              answer, &s, MHD_OPTION_SOCK_ADDR, (struct sockaddr *) &address,
                              MHD_OPTION_NOTIFY_COMPLETED, completed, &s,
                              MHD_OPTION_CONNECTION_TIMEOUT, 60u, MHD_OPTION_END);
    if (daemon == NULL) {
        mrd_why_set(&why, MRD_BUSY, errno,
                    "cannot listen on 127.0.0.1:%" PRId64 " (is another `meridian open` running?)",
                    set->port);
        goto out;
    }
    printf("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:%" PRId64 "%s\n", set->port, s.path);
    if (set->port != 9001)
        fprintf(stderr, "note: ui.perfetto.dev fetches from port 9001 only; another port needs a "
                        "page of your own\n");
    tell_parts(mrd_buf_cstr(&path));
    fprintf(stderr, "Open the link in a browser on this machine. Ctrl-C stops.\n");
    if (getenv("SSH_CONNECTION") != NULL)
        fprintf(stderr,
                "From your own machine: ssh -L %" PRId64 ":127.0.0.1:%" PRId64
                " HOST, then open the link there.\n",
                set->port, set->port);
    fflush(stdout);
    wait_for_page(set, wake[0], signals);
    status = MRD_EXIT_OK;
out:
    if (daemon != NULL)
        MHD_stop_daemon(daemon);
    if (status != MRD_EXIT_OK)
        mrd_cli_error("open", &why);
    for (int i = 0; i < 2; i++) {
        if (wake[i] >= 0)
            close(wake[i]);
    }
    if (signals >= 0)
        close(signals);
    if (s.fd >= 0)
        close(s.fd);
    mrd_buf_fini(&path);
    return status;
}

int
mrd_cmd_open(int argc, char **argv)
{
    settings set = { 0 };
    mrd_cli_frame frame = {
        .usage = "FILE|DIR [options]",
        .more = more,
        .table = table,
        .rows = MRD_COUNT(table),
        .settings = &set,
        .min_words = 1,
        .max_words = 1,
        .wants = "name one file or a profile's folder, for example profile/system_profile.pftrace",
        .run = serve
    };

    return mrd_cli_main(&frame, argc, argv);
}

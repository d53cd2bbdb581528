#include "bench/served.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/aggregator.h"

double
served_process_cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static void
tell(int fd, const void *data, size_t len)
{
    if (write(fd, data, len) != (ssize_t) len)
        _exit(1);
}

static void
hear(int fd, void *data, size_t len)
{
    if (read(fd, data, len) != (ssize_t) len)
        _exit(1);
}

/* The child obeys commands of one byte. */
static void
serve(int in, int out)
{
    char folder[] = "/tmp/mrd-bench-XXXXXX", command[64], url[128] = "", what;
    mrd_aggregator_options o = { .store = mkdtemp(folder),
                                 .data_url = "tcp://127.0.0.1:0",
                                 .control_url = "tcp://127.0.0.1:0",
                                 .disk_reserve = -1 };
    mrd_aggregator_session request = { .name = "bench" };
    mrd_aggregator *a = NULL;
    mrd_why why = { 0 };
    served_counts counts;
    uint64_t session = 0;
    int status;

    if (mrd_aggregator_open(&o, &a, &why) != MRD_OK) {
        fprintf(stderr, "%s\n", why.text);
        _exit(1);
    }
    snprintf(url, sizeof(url), "%s", mrd_aggregator_data_url(a));
    tell(out, url, sizeof(url));
    snprintf(url, sizeof(url), "%s", mrd_aggregator_control_url(a));
    tell(out, url, sizeof(url));
    while (read(in, &what, 1) == 1 && what != 'q') {
        if (what == 's') {
            if (mrd_aggregator_start(a, &request, &session, &why) != MRD_OK)
                fprintf(stderr, "%s\n", why.text);
            tell(out, &session, sizeof(session));
        } else {
            counts = (served_counts){ served_process_cpu(), (double) mrd_aggregator_events(a) };
            tell(out, &counts, sizeof(counts));
        }
    }
    mrd_aggregator_close(a);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    status = system(command);
    _exit(status != 0);
}

void
served_begin(served *s)
{
    int to[2], from[2];

    fflush(NULL);
    if (pipe(to) != 0 || pipe(from) != 0 || (s->pid = fork()) < 0)
        abort();
    if (s->pid == 0) {
        close(to[1]);
        close(from[0]);
        serve(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    s->to = to[1];
    s->from = from[0];
    hear(s->from, s->data_url, sizeof(s->data_url));
    hear(s->from, s->control_url, sizeof(s->control_url));
}

void
served_start(served *s)
{
    tell(s->to, "s", 1);
}

uint64_t
served_session(served *s)
{
    uint64_t session;

    hear(s->from, &session, sizeof(session));
    return session;
}

served_counts
served_get(served *s)
{
    served_counts counts;

    tell(s->to, "c", 1);
    hear(s->from, &counts, sizeof(counts));
    return counts;
}

void
served_end(served *s)
{
    tell(s->to, "q", 1);
    close(s->to);
    close(s->from);
    waitpid(s->pid, NULL, 0);
}

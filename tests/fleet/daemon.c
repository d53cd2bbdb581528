#include "tests/fleet/daemon.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "proto/link.h"
#include "tests/wait.h"

#define OPTIONS_MAX 24

extern char **environ;

bool
aggregator_prepare(aggregator_proc *d, const char *dir, bool tls)
{
    /* Open the data and the control socket at the same time, so that the kernel chooses two different
     * ports. */
    mrd_server_options o = { .data_url = "tcp://127.0.0.1:0", .control_url = "tcp://127.0.0.1:0" };
    mrd_server *s = NULL;

    *d = (aggregator_proc){ 0 };
    snprintf(d->dir, sizeof(d->dir), "%s", dir);
    snprintf(d->store, sizeof(d->store), "%s/store", dir);
    if (mrd_server_open(&o, &s, NULL) != MRD_OK)
        return false;
    snprintf(d->data, sizeof(d->data), "%s%s", tls ? "tls+" : "", mrd_server_data_url(s));
    snprintf(d->control, sizeof(d->control), "%s%s", tls ? "tls+" : "", mrd_server_control_url(s));
    mrd_server_close(s);
    return true;
}

/* The port of the newest start, or 0 before it listens. */
static uint16_t
http_port(const aggregator_proc *d, unsigned starts)
{
    char path[320], line[2048];
    unsigned seen = 0;
    int port = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/log", d->dir);
    if ((f = fopen(path, "re")) == NULL)
        return 0;
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *at = strstr(line, "AGG-UP") == NULL ? NULL : strstr(line, "http_port=");

        if (at == NULL)
            continue;
        seen++;
        port = atoi(at + 10);
    }
    fclose(f);
    return seen >= starts ? (uint16_t) port : 0;
}

bool
aggregator_start(aggregator_proc *d, const char *const *extra)
{
    static char program[512], options[8][400];
    char shell[] = "/bin/sh", run[] = "-c", limit[80], log_path[320];
    char *argv[OPTIONS_MAX + 4] = { shell, run, limit, program };
    posix_spawn_file_actions_t files;
    unsigned starts = aggregator_log_lines(d, "AGG-UP") + 1;
    int n = 4;
    bool ok;

    snprintf(program, sizeof(program), "%s/bin/meridian-aggregator",
             getenv("MERIDIAN_BUILD") == NULL ? "build" : getenv("MERIDIAN_BUILD"));
    snprintf(limit, sizeof(limit), "ulimit -n %u; exec \"$0\" \"$@\"", d->files);
    snprintf(options[0], sizeof(options[0]), "--store=%s", d->store);
    snprintf(options[1], sizeof(options[1]), "--data-listen=%s", d->data);
    snprintf(options[2], sizeof(options[2]), "--control-listen=%s", d->control);
    snprintf(options[3], sizeof(options[3]), "--http-listen=127.0.0.1:%u", d->http_port);
    snprintf(options[4], sizeof(options[4]), "--disk-reserve=0");
    snprintf(options[5], sizeof(options[5]), "--time-port=0");
    for (int i = 0; i < 6; i++)
        argv[n++] = options[i];
    for (int i = 0; extra != NULL && extra[i] != NULL && n < OPTIONS_MAX + 3; i++)
        argv[n++] = (char *) (uintptr_t) extra[i];
    snprintf(log_path, sizeof(log_path), "%s/log", d->dir);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    ok = posix_spawn(&d->pid, d->files > 0 ? shell : program, &files, NULL,
                     d->files > 0 ? argv : argv + 3, environ) == 0;
    posix_spawn_file_actions_destroy(&files);
    d->http_port = 0;
    for (int64_t end = test_deadline(); ok && d->http_port == 0 && test_in_time(end);
         test_look_again()) {
        if (waitpid(d->pid, NULL, WNOHANG) == d->pid)
            return false;
        d->http_port = http_port(d, starts);
    }
    return ok && d->http_port != 0;
}

bool
aggregator_end(aggregator_proc *d, int sig)
{
    int status = 1;

    kill(d->pid, sig);
    for (int64_t end = test_deadline(); waitpid(d->pid, &status, WNOHANG) == 0; test_look_again()) {
        if (!test_in_time(end)) {
            fprintf(stderr, "the aggregator does not end on signal %d\n", sig);
            kill(d->pid, SIGKILL);
            waitpid(d->pid, &status, 0);
            break;
        }
    }
    d->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool
aggregator_ask(const aggregator_proc *d, const char *method, const char *path, const char *body,
               aggregator_request *r)
{
    char url[512], program[] = "curl";
    char *argv[] = { program,
                     (char *) (uintptr_t) "-sSf",
                     (char *) (uintptr_t) "--retry", /* curl retries after status 503 */
                     (char *) (uintptr_t) "5",
                     (char *) (uintptr_t) "--max-time",
                     (char *) (uintptr_t) "60",
                     (char *) (uintptr_t) "-o",
                     r->reply,
                     (char *) (uintptr_t) "-H",
                     (char *) (uintptr_t) "Content-Type: application/json",
                     (char *) (uintptr_t) "-X",
                     (char *) (uintptr_t) method,
                     url,
                     (char *) (uintptr_t) (body == NULL ? NULL : "-d"),
                     (char *) (uintptr_t) body,
                     NULL };

    snprintf(r->reply, sizeof(r->reply), "%s/reply.json", d->dir);
    (void) unlink(r->reply);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", d->http_port, path);
    return posix_spawnp(&r->pid, program, NULL, NULL, argv, environ) == 0;
}

bool
aggregator_answered(aggregator_request *r, mrd_json **ret_json)
{
    int status;

    *ret_json = NULL;
    if (waitpid(r->pid, &status, WNOHANG) == 0)
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        (void) mrd_json_load(r->reply, ret_json, NULL);
    return true;
}

static void
read_status(pid_t pid, aggregator_usage *u)
{
    char path[64], line[256];
    unsigned long long n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
    if ((f = fopen(path, "re")) == NULL)
        return;
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "VmRSS: %llu", &n) == 1)
            u->rss_kb = n;
        if (sscanf(line, "Threads: %llu", &n) == 1)
            u->threads = n;
    }
    fclose(f);
}

void
aggregator_used(const aggregator_proc *d, aggregator_usage *u)
{
    unsigned long long user, system;
    struct dirent *e;
    char path[64];
    DIR *dir;
    FILE *f;

    *u = (aggregator_usage){ 0 };
    read_status(d->pid, u);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int) d->pid);
    if ((f = fopen(path, "re")) != NULL) {
        if (fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                   &system) == 2)
            u->cpu_s = (double) (user + system) / (double) sysconf(_SC_CLK_TCK);
        fclose(f);
    }
    snprintf(path, sizeof(path), "/proc/%d/fd", (int) d->pid);
    if ((dir = opendir(path)) != NULL) {
        while ((e = readdir(dir)) != NULL)
            u->files += e->d_name[0] != '.';
        closedir(dir);
    }
}

unsigned
aggregator_log_lines(const aggregator_proc *d, const char *text)
{
    char path[320], line[2048];
    unsigned n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/log", d->dir);
    if ((f = fopen(path, "re")) == NULL)
        return 0;
    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

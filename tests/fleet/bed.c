#include "tests/fleet/bed.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf/log.h"

bool
bed_welcomed(void *self)
{
    const bed *b = self;
    fleet_counts c;

    fleet_count(b->f, &c);
    return c.welcomed == b->agents;
}

static bool
answered(void *self)
{
    bed *b = self;

    return aggregator_answered(&b->request, &b->reply);
}

/* Sends one request while the agents run. NULL if it failed. */
mrd_json *
bed_ask(bed *b, const char *method, const char *path, const char *body)
{
    b->reply = NULL;
    if (!aggregator_ask(&b->d, method, path, body, &b->request))
        return NULL;
    (void) fleet_play(b->f, 2 * BED_PATIENCE, answered, b);
    return b->reply;
}

mrd_json *
bed_manifest(bed *b)
{
    char path[128];

    snprintf(path, sizeof(path), "/api/v1/sessions/%s", b->session);
    return bed_ask(b, "GET", path, NULL);
}

/* Reads the session's state from the list of sessions, which is short for any number of nodes. */
bool
bed_state_is(bed *b, const char *want)
{
    mrd_json *o = bed_ask(b, "GET", "/api/v1/sessions", NULL);
    const mrd_json *list = mrd_json_get(o, "sessions");
    bool is = false;

    for (size_t i = 0; i < mrd_json_size(list); i++)
        is = is || (strcmp(mrd_json_str(mrd_json_at(list, i), "id", ""), b->session) == 0 &&
                    strcmp(mrd_json_str(mrd_json_at(list, i), "state", ""), want) == 0);
    mrd_json_free(o);
    return is;
}

bool
bed_state_becomes(bed *b, const char *want)
{
    /* a long timeout, because the aggregator may have much to process */
    int64_t end = mrd_local_now().ns + 15 * BED_PATIENCE;
    bool is = bed_state_is(b, want);

    while (!is && mrd_local_now().ns < end) {
        (void) fleet_play(b->f, 100 * MRD_MS, NULL, NULL);
        is = bed_state_is(b, want);
    }
    return is;
}

/* Runs `meridian certs` for the aggregator and every agent. */
static bool
make_certificates(bed *b, const char *dir)
{
    static const char *const files[] = { "--tls-cert",     "aggregator.pem", "--tls-key",
                                         "aggregator.key", "--tls-ca",       "ca.pem" };
    const char *build = getenv("MERIDIAN_BUILD") == NULL ? "build" : getenv("MERIDIAN_BUILD");
    char command[1200], name[FLEET_NAME];
    bool ok;

    snprintf(b->certs, sizeof(b->certs), "%s/certs", dir);
    b->o.certs = b->certs;
    snprintf(command, sizeof(command), "%s/bin/meridian certs init -d %s >/dev/null", build,
             b->certs);
    ok = system(command) == 0;
    for (unsigned i = 0; i < b->agents && ok; i++) {
        fleet_name_of(i, name);
        snprintf(command, sizeof(command), "%s/bin/meridian certs agent %s -d %s >/dev/null", build,
                 name, b->certs);
        ok = system(command) == 0;
    }
    for (int i = 0; i < 3; i++)
        snprintf(b->tls_options[i], sizeof(b->tls_options[i]), "%s=%s/%s", files[2 * i], b->certs,
                 files[2 * i + 1]);
    return ok;
}

bool
bed_open(bed *b, const char *dir, const char *const *extra)
{
    mrd_why why = { 0 };

    mrd_log_init("fleet", 2, MRD_LOG_ERROR, false);
    mrd_link_raise_files();
    b->o.agents = b->agents;
    b->o.data_url = b->d.data;
    b->o.control_url = b->d.control;
    if (!aggregator_prepare(&b->d, dir, b->tls) || (b->tls && !make_certificates(b, dir)))
        return false;
    b->d.files = b->files;
    if (!aggregator_start(&b->d, extra))
        return false;
    b->opened_ns = mrd_local_now().ns;
    if (fleet_open(&b->o, &b->f, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return b->f != NULL;
}

bool
bed_start(bed *b, unsigned agents)
{
    int64_t end = mrd_local_now().ns + BED_PATIENCE;
    char body[64];

    snprintf(body, sizeof(body), "{\"merge\": false, \"require\": %u}", agents);
    do { /* an agent's control connection may arrive a little later than its welcome */
        mrd_json *o = bed_ask(b, "POST", "/api/v1/sessions", body);

        snprintf(b->session, sizeof(b->session), "%s", mrd_json_str(o, "id", ""));
        mrd_json_free(o);
        while (b->session[0] != '\0' && mrd_local_now().ns < end && !bed_state_is(b, "failed")) {
            if (bed_state_is(b, "recording"))
                return true;
        }
        (void) fleet_play(b->f, 500 * MRD_MS, NULL, NULL);
    } while (mrd_local_now().ns < end);
    return false;
}

bool
bed_stop(bed *b)
{
    char path[128];
    mrd_json *o;

    snprintf(path, sizeof(path), "/api/v1/sessions/%s/stop", b->session);
    o = bed_ask(b, "POST", path, NULL);
    mrd_json_free(o);
    return o != NULL && bed_state_becomes(b, "complete");
}

void
bed_print(const bed *b, const char *what, int64_t since_ns)
{
    aggregator_usage u;
    fleet_counts c;

    aggregator_used(&b->d, &u);
    fleet_count(b->f, &c);
    printf("%6.1f s %-10s welcomed %u recording %u flushed %u begun %llu delivered %llu held %llu "
           "dropped %llu "
           "retried %llu | aggregator %.0f MiB, %llu files, %.1f s CPU",
           (double) (mrd_local_now().ns - since_ns) / 1e9, what, c.welcomed, c.recording, c.flushed,
           (unsigned long long) c.begun, (unsigned long long) c.delivered,
           (unsigned long long) c.held, (unsigned long long) c.dropped,
           (unsigned long long) c.retried, (double) u.rss_kb / 1024, (unsigned long long) u.files,
           u.cpu_s);
    if (c.latencies > 0)
        printf(" | ack p50 %.1f p99 %.1f ms", (double) fleet_latency(&c, 0.5) / 1e6,
               (double) fleet_latency(&c, 0.99) / 1e6);
    printf("\n");
    fflush(stdout);
}

bool
bed_close(bed *b)
{
    fleet_close(b->f);
    b->f = NULL;
    return aggregator_end(&b->d, SIGTERM);
}

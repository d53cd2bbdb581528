/* export_run STORE SESSION TARGET owner|target MS: exports a session of a store like the
 * aggregator, for tests/aggregator/export_fuse_test.py. With `owner` it belongs to user 54321.
 * Prints "done FILES BYTES", "failed REASON", or "left" if it is not complete after MS
 * milliseconds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/export/exporter.h"
#include "tests/wait.h"

static char answer[MRD_WHY_MAX + 64];
static bool over; /* atomic */

static void
on_began(void *self, uint64_t session)
{
    (void) self;
    (void) session;
}

static void
on_done(void *self, uint64_t session, uint64_t files, uint64_t bytes, const mrd_why *failed)
{
    (void) self;
    (void) session;
    if (failed != NULL)
        snprintf(answer, sizeof(answer), "failed %s", failed->text);
    else
        snprintf(answer, sizeof(answer), "done %" PRIu64 " %" PRIu64, files, bytes);
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
}

int
main(int argc, char **argv)
{
    mrd_session_store store = { .dir = argc > 5 ? argv[1] : NULL };
    mrd_exporter_options o = { .store = &store,
                               .target = argc > 5 ? argv[3] : NULL,
                               .owner = argc > 5 && strcmp(argv[4], "owner") == 0,
                               .path = "runs/{session}",
                               .began = on_began,
                               .done = on_done };
    mrd_session *s = calloc(1, sizeof(*s));
    mrd_exporter *e = NULL;
    mrd_why why = { 0 };

    if (argc < 6 || s == NULL)
        return 2;
    s->id = 1;
    snprintf(s->text, sizeof(s->text), "%s", argv[2]);
    if (mrd_strlist_add(&s->jobs, mrd_str_of("uid=54321")) != MRD_OK ||
        mrd_exporter_open(&o, &e, &why) != MRD_OK || !mrd_exporter_start(e, s, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 2;
    }
    for (int64_t end = test_clock_ms() + atoll(argv[5]);
         !__atomic_load_n(&over, __ATOMIC_ACQUIRE) && test_clock_ms() < end; test_look_again())
        ;
    puts(__atomic_load_n(&over, __ATOMIC_ACQUIRE) ? answer : "left");
    fflush(stdout);
    mrd_exporter_close(e);
    mrd_strlist_fini(&s->jobs);
    free(s);
    return 0;
}

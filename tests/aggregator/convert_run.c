/* convert_run STORE SESSION MS COMMAND TABLES [NAME=SHA256...]: converts the device profiles of
 * process 7 of node i-a like the aggregator, for tests/aggregator/copies_fuse_test.py. Prints "done
 * FILES MESSAGE", "failed REASON", or "left" if it is not complete after MS milliseconds. */
#include <inttypes.h>
#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "aggregator/viewer/converter.h"
#include "tests/wait.h"
#include "tests/watcher.h"

static char answer[MRD_WHY_MAX + 64];
static bool over; /* atomic */

static void
on_began(void *self, const mrd_conversion_of *of)
{
    (void) self;
    (void) of;
}

static bool
on_list(void *self, const mrd_conversion_results *results)
{
    (void) self;
    (void) results;
    return true;
}

static void
on_ended(void *self, const mrd_conversion_of *of, const mrd_conversion_end *end)
{
    (void) self;
    (void) of;
    if (end->state == MRD_CONVERT_DONE)
        snprintf(answer, sizeof(answer), "done %" PRIu64 " %s", end->files, end->message);
    else
        snprintf(answer, sizeof(answer), "failed %s", end->message);
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
}

int
main(int argc, char **argv)
{
    mrd_session_store store = { .dir = argc > 5 ? argv[1] : NULL, .sync = MRD_SYNC_GROUP };
    mrd_converter_settings settings = { .command = argc > 5 ? argv[4] : NULL,
                                        .tables = argc > 5 ? argv[5] : NULL,
                                        .time = 60 * MRD_SEC,
                                        .at_once = 1 };
    mrd_converter_options o = { .store = &store,
                                .settings = &settings,
                                .began = on_began,
                                .list = on_list,
                                .ended = on_ended,
                                .there = true };
    mrd_conversion conversion = { .instance_id = "i-a", .process_id = 7 };
    mrd_session *s = calloc(1, sizeof(*s));
    mrd_converter *c = NULL;
    mrd_why why = { 0 };

    if (argc < 6 || s == NULL ||
        (s->artifacts = calloc((size_t) argc, sizeof(*s->artifacts))) == NULL)
        return 2;
    s->id = 1;
    snprintf(s->text, sizeof(s->text), "%s", argv[2]);
    s->conversions = (mrd_session_conversions){ .v = &conversion, .n = 1 };
    for (int i = 6; i < argc; i++) {
        mrd_listed_artifact *a = &s->artifacts[s->n_artifacts++];
        size_t len = strcspn(argv[i], "=");

        *a = (mrd_listed_artifact){ .complete = true, .process_id = 7 };
        snprintf(a->name, sizeof(a->name), "%.*s", (int) len, argv[i]);
        mrd_text_set(a->sha256, sizeof(a->sha256), argv[i] + len + 1);
        mrd_text_set(a->instance_id, sizeof(a->instance_id), "i-a");
    }
    if (mrd_converter_open(&o, &c, &why) != MRD_OK || !mrd_converter_start(c, s, 0)) {
        fprintf(stderr, "%s\n", why.text);
        return 2;
    }
    for (int64_t end = test_clock_ms() + atoll(argv[3]);
         !__atomic_load_n(&over, __ATOMIC_ACQUIRE) && test_clock_ms() < end; test_look_again())
        ;
    puts(__atomic_load_n(&over, __ATOMIC_ACQUIRE) ? answer : "left");
    fflush(stdout);
    mrd_converter_close(c);
    free(s->artifacts);
    free(s);
    return 0;
}

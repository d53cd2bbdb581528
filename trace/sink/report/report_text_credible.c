/* trace/sink/report/report_text_credible.c - sentences about impossible records of devices. */
#include <inttypes.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

/* maximum number of processes named for each kind of impossible record */
#define SHOWN_MAX 3

static void
put_inside(const mrd_catalog *cat, const mrd_credible_row *row, mrd_buf *to)
{
    char dur[MRD_DUR_TEXT];

    mrd_buf_fmt(to,
                "the records of one stream overlap: '" MRD_STR_FMT "' of %s contains %" PRIu64
                " other kernels, so its length is wrong and the shares are unknown",
                MRD_STR_ARG(mrd_catalog_text(cat, row->around)),
                mrd_text_dur((uint64_t) row->around_ns, dur), row->inside);
}

static void
put_empty(const mrd_credible_row *row, uint64_t empty, uint64_t all, const char *what, mrd_buf *to)
{
    mrd_buf_fmt(to, "%" PRIu64 " of %" PRIu64 " %s in the trace", empty, all, what);
    if (mrd_credible_hides(row))
        mrd_buf_text(to, ", so what the device did is unknown and idle time is not proven");
}

static void
put_early(const mrd_credible_row *row, mrd_buf *to)
{
    char dur[MRD_DUR_TEXT];

    mrd_buf_fmt(to,
                "%" PRIu64 " kernel%s before %s launch, by up to %s: the device's clock is early, "
                "and times from launch to begin are unknown",
                row->early, row->early == 1 ? " begins" : "s begin",
                row->early == 1 ? "its" : "their", mrd_text_dur((uint64_t) row->early_ns, dur));
}

static void
put_process(const mrd_report_text *text, mrd_proc_id process, unsigned kind, mrd_buf *to)
{
    const mrd_credible_row *row = mrd_report_credible(text->common.report, process);

    mrd_text_process(text->common.env->catalog, process, to);
    mrd_buf_text(to, ": ");
    if (kind == 0)
        put_inside(text->common.env->catalog, row, to);
    else if (kind == 1)
        put_empty(row, row->graphs_empty, row->graphs, "graph launches have no kernel", to);
    else if (kind == 2)
        put_early(row, to);
    else
        put_empty(row, row->steps_empty, row->steps, "device steps have no device work", to);
    mrd_buf_text(to, ". ");
}

void
mrd_report_text_impossible(const mrd_report_text *text, mrd_buf *to)
{
    const mrd_catalog *cat = text->common.env->catalog;

    for (unsigned kind = 0; kind < 4; kind++) {
        size_t shown = 0, more = 0;

        for (mrd_proc_id id = 0; id < mrd_catalog_processes(cat); id++) {
            const mrd_credible_row *row = mrd_report_credible(text->common.report, id);
            const uint64_t counts[] = { row->inside, row->graphs_empty, row->early,
                                        row->steps_empty };

            if (counts[kind] == 0)
                continue;
            if (shown < SHOWN_MAX)
                put_process(text, id, kind, to);
            more += shown++ >= SHOWN_MAX;
        }
        if (more > 0)
            mrd_buf_fmt(to, "The same holds for %zu more process%s. ", more, more == 1 ? "" : "es");
    }
}

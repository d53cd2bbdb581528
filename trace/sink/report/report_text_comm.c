/* Sections of report.txt about collectives: the parts of exposed communication, and the
 * bandwidth. */
#include <inttypes.h>
#include <stdio.h>

#include "trace/sink/report/report_text.h"
#include "trace/sink/text.h"

/* Writes what exposed communication consists of. Computation can hide transfer, but not waiting for
 * other workers. */
void
mrd_report_text_exposed(mrd_report_text *text)
{
    size_t n, shown = 0, all = 0;
    const mrd_report_worker *worker = mrd_report_workers(text->common.report, &n);
    char d[2][MRD_DUR_TEXT], share[3][MRD_TEXT_SHARE];

    for (size_t i = 0; i < n; i++)
        all += worker[i].part_ns[MRD_REPORT_EXPOSED] > 0;
    if (all == 0)
        return;
    mrd_buf_fmt(&text->text, "\n%-34s %9s %12s %9s %9s\n", "Exposed communication, % of window",
                "exposed", "for the last", "transfer", "unknown");
    for (size_t i = 0; i < n && shown < MRD_REPORT_TEXT_ROWS; i++) {
        uint64_t exposed = worker[i].part_ns[MRD_REPORT_EXPOSED],
                 window = mrd_report_window(&worker[i]);

        if (exposed == 0)
            continue;
        mrd_report_text_worker(text, &worker[i]);
        mrd_buf_fmt(
            &text->text, " %9s %12s %9s %9s\n", mrd_text_dur(exposed, d[0]),
            mrd_text_share(worker[i].exposed_wait_ns, window, share[0]),
            mrd_text_share(worker[i].exposed_transfer_ns, window, share[1]),
            mrd_text_share(exposed - worker[i].exposed_wait_ns - worker[i].exposed_transfer_ns,
                           window, share[2]));
        shown++;
    }
    mrd_text_left_out(&text->text, all - shown, "workers", "report-json");
    mrd_report_text_note(&text->text,
                         "for the last: until the last worker began the collective; transfer: from "
                         "then on; unknown: parts of other workers are not in the profile, or a "
                         "worker may leave the operation before the others");
}

void
mrd_report_text_bandwidth(mrd_report_text *text)
{
    size_t n, shown = 0, all = 0;
    const mrd_report_collective *collective = mrd_report_collectives(text->common.report, &n);
    char dur[MRD_DUR_TEXT], bus[32];

    for (size_t i = 0; i < n; i++)
        all += collective[i].sized > 0;
    if (all == 0)
        return;
    mrd_buf_fmt(&text->text, "\n%-38s %7s %12s %10s %13s %13s\n", "Bandwidth of collectives",
                "count", "bytes each", "latency", "algbw", "busbw");
    for (size_t i = 0; i < n && shown < MRD_REPORT_TEXT_NAMES; i++) {
        if (collective[i].sized == 0)
            continue;
        snprintf(bus, sizeof(bus), "%.2f GB/s",
                 (double) collective[i].bus_bytes / (double) collective[i].sized_ns);
        mrd_buf_text(&text->text, "  ");
        mrd_text_cell(&text->text, mrd_catalog_text(text->common.env->catalog, collective[i].name),
                      36, true);
        mrd_buf_fmt(&text->text, " %7" PRIu64 " %12" PRIu64 " %10s %8.2f GB/s %13s\n",
                    collective[i].sized, collective[i].bytes / collective[i].sized,
                    mrd_text_dur(collective[i].sized_ns / collective[i].sized, dur),
                    (double) collective[i].bytes / (double) collective[i].sized_ns,
                    collective[i].bus_bytes > 0 ? bus : "-");
        shown++;
    }
    mrd_text_left_out(&text->text, all - shown, "collectives", "report-json");
    mrd_report_text_note(
        &text->text,
        "algbw: bytes of the operation over the latency (counted from the last worker's "
        "begin, so that a late worker does not make the network look slow); busbw: what "
        "one worker moves over its links, to be compared with their peak");
}

/*
 * trace/import/vendor.h - the vendor's viewer, when it is on the machine, turns NTFF, NEFF and .pb files
 * into JSON that the importers read. Their formats are closed; nothing here decodes them.
 */
#ifndef MRD_TRACE_VENDOR_H
#define MRD_TRACE_VENDOR_H

#include "base/buf.h"

/*
 * Path of the tool: `wanted` when given ("" means never), else neuron-explorer or neuron-profile on
 * PATH, else in /opt/aws/neuron/bin. False when there is none; an explicit one that cannot be run
 * is found out by convert.
 */
bool mrd_vendor_find(const char *wanted, mrd_buf *ret_path);

/* Of one conversion; 0: none. */
typedef struct {
    int64_t timeout_ms;
    uint64_t memory, disk; /* bytes */
} mrd_vendor_limits;

/*
 * Runs `TOOL view -d DIR --output-format json` inside the existing folder `into`, where it leaves
 * JSON files, confined as base/confined.h says: `into` goes when this process is killed. Errors:
 * NOTFOUND, TIMEOUT, LIMIT, IO with the last lines the tool printed.
 */
mrd_err mrd_vendor_convert(const char *tool, const char *dir, const char *into,
                           const mrd_vendor_limits *limits, mrd_why *why);

#endif

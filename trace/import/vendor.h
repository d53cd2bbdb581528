/*
 * trace/import/vendor.h - converts NTFF, NEFF and .pb files with the vendor's viewer, if it is
 * installed, to JSON that the importers read. These formats are closed, and nothing here decodes
 * them.
 */
#ifndef MRD_TRACE_VENDOR_H
#define MRD_TRACE_VENDOR_H

#include "base/buf.h"

/*
 * Finds the vendor's tool: `wanted` if it is not NULL ("" means never), else neuron-explorer or
 * neuron-profile in PATH, else in /opt/aws/neuron/bin. Returns false if there is none. A given tool
 * is not checked; mrd_vendor_convert fails if it cannot be run.
 */
bool mrd_vendor_find(const char *wanted, mrd_buf *ret_path);

/* Limits of one conversion. 0 means no limit. */
typedef struct {
    int64_t timeout_ms;
    uint64_t memory, disk; /* limits in bytes */
} mrd_vendor_limits;

/*
 * Runs `TOOL view -d DIR --output-format json` in the existing directory `into`, where it writes
 * JSON files. The tool is confined as described in base/sys/confined.h, and `into` is removed if
 * this process is killed. Errors: NOTFOUND, TIMEOUT, LIMIT, and IO with the last lines that the
 * tool printed.
 */
mrd_err mrd_vendor_convert(const char *tool, const char *dir, const char *into,
                           const mrd_vendor_limits *limits, mrd_why *why);

#endif

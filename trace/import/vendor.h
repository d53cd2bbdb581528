/*
 * trace/import/vendor.h - converts NTFF, NEFF and .pb files to JSON, which the importers read. Runs
 * the vendor's viewer, if it is installed, because these formats are not public.
 */
#ifndef MRD_TRACE_VENDOR_H
#define MRD_TRACE_VENDOR_H

#include "base/buf.h"

/*
 * Finds the vendor's tool. If `wanted` is not NULL, this is the tool; it is not checked, and ""
 * means no tool. Otherwise neuron-explorer or neuron-profile is searched in PATH, then in
 * /opt/aws/neuron/bin. Returns false if there is no tool.
 */
bool mrd_vendor_find(const char *wanted, mrd_buf *ret_path);

/* Limits of one conversion. 0 means no limit. */
typedef struct {
    int64_t timeout_ms;
    uint64_t memory, disk; /* limits in bytes */
} mrd_vendor_limits;

/*
 * Runs `TOOL view -d DIR --output-format json`, which writes JSON files to the existing directory
 * `into`. Confines the tool as described in base/sys/confined.h. If this process is killed, `into`
 * is removed. Errors: NOTFOUND, TIMEOUT, LIMIT, and IO with the last lines that the tool printed.
 */
mrd_err mrd_vendor_convert(const char *tool, const char *dir, const char *into,
                           const mrd_vendor_limits *limits, mrd_why *why);

#endif

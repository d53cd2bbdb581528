/*
 * hw/imds.h - reads the EC2 instance metadata service, version 2 (token first), through libcurl.
 *
 * `timeout` limits all requests together, so that a node without the service starts quickly. In a
 * container with a bridge network, the token's answer may exceed the hop limit. The result is then
 * TIMEOUT, and the caller uses another source for the node's id.
 *
 * Environment: AWS_EC2_METADATA_SERVICE_ENDPOINT replaces http://169.254.169.254, and
 * AWS_EC2_METADATA_DISABLED=true disables the service. Proxies are never used. Threads: call from
 * one thread before starting others, because of libcurl's global state.
 */
#ifndef MRD_HW_IMDS_H
#define MRD_HW_IMDS_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct {
    char instance_id[129]; /* never empty on success */
    char instance_type[64], zone[64];
} mrd_imds; /* a text is empty if the service does not have the item */

#define MRD_IMDS_TIMEOUT (900 * MRD_MS)

/* Reads the metadata of this instance. If `endpoint` is NULL, the environment determines the
 * address. Errors: UNSUPPORTED (the service is disabled), TIMEOUT, NET, DENIED (HTTP 401, 403),
 * FORMAT (an invalid instance id). */
mrd_err mrd_imds_read(const char *endpoint, mrd_dur_ns timeout, mrd_imds *ret_imds, mrd_why *why);

#endif

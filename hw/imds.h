/*
 * hw/imds.h - the EC2 instance metadata service, version 2 (token first), through libcurl.
 *
 * All requests together take at most `timeout`, so that a node without the service starts at once.
 * Inside a container bridge the token's answer can die at the hop limit: that is a TIMEOUT, and the
 * caller goes on with another identity. Environment: AWS_EC2_METADATA_SERVICE_ENDPOINT replaces
 * http://169.254.169.254, AWS_EC2_METADATA_DISABLED=true switches it off. No proxy is ever used.
 * Threads: call from one thread, before others start (libcurl's global state).
 */
#ifndef MRD_HW_IMDS_H
#define MRD_HW_IMDS_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct {
    char instance_id[129]; /* never empty on success */
    char instance_type[64], region[64], zone[64], zone_id[64], placement_group[129], local_ipv4[64];
} mrd_imds; /* other members are empty when the service does not know them */

#define MRD_IMDS_TIMEOUT (900 * MRD_MS)

/* endpoint NULL: as the environment says. Errors: UNSUPPORTED (switched off), TIMEOUT, NET, DENIED
 * (HTTP 401, 403), FORMAT (an instance id that is none). */
mrd_err mrd_imds_read(const char *endpoint, mrd_dur_ns timeout, mrd_imds *ret_imds, mrd_why *why);

#endif

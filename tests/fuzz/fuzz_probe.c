/* Fuzzes the decoders of clock probe packets and of probe records. */
#include "timesync/probe.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[MRD_PROBE_KEY_LEN];
    mrd_bytes bytes = { data, size };
    mrd_probe_packet packet;
    mrd_probe_sent sent;
    mrd_probe probe;
    size_t at = 0;

    if (mrd_probe_packet_decode(bytes, &packet) == MRD_OK)
        (void) mrd_probe_packet_proven(bytes, key);
    while (at < size && mrd_probe_sent_decode(bytes, &at, &sent) == MRD_OK) {
        mrd_probe_served served = { .id = sent.id, .r2 = 5, .r3 = 6 };

        (void) mrd_probe_join(&sent, &served, &probe);
    }
    for (at = 0; at < size && mrd_probe_decode(bytes, &at, &probe) == MRD_OK;) {
        mrd_ineq q[2];

        (void) mrd_probe_ineqs(&probe, q);
    }
    return 0;
}

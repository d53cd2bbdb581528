/* bench/runtime_json.h - generates a document in the format of nrt_sys_trace_fetch_events. */
#ifndef MRD_BENCH_RUNTIME_JSON_H
#define MRD_BENCH_RUNTIME_JSON_H

#include <stdint.h>
#include <stdio.h>

#include "base/obj.h"

static inline uint64_t
rnd(uint64_t *seed, uint64_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % n;
}

/* Writes a document with n records to `f`, in which starts and stops alternate. The event numbers
 * of each core have no gap. */
static inline void
write_runtime(FILE *f, uint64_t n)
{
    static const char *const types[] = { "cc_running",      "nrt_tensor_free",
                                         "dmem_buf_copyin", "nrt_dma_mem_dealloc",
                                         "kbl_exec_pre",    "nrt_execute" };
    uint64_t seed = 1, ts = 1712195495406752800u;

    fputs("{\"data_version\":2,\"events\":[", f);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t pair = i / 2, type = (pair * 2654435761u >> 7) % MRD_COUNT(types);

        ts += rnd(&seed, 4000);
        fprintf(f,
                "%s{\"event_type\":\"%s\",\"phase\":\"%s\",\"id\":%llu,\"nc_idx\":%llu,"
                "\"nc_local_id\":%llu,\"tracking_id\":%llu,\"thread_id\":%llu,\"worker_gid\":%llu,"
                "\"data\":{",
                i == 0 ? "" : ",", types[type], i % 2 == 0 ? "start" : "stop",
                (unsigned long long) i, (unsigned long long) (pair % 4),
                (unsigned long long) (pair / 4 * 2 + i % 2), (unsigned long long) (pair + 1000000),
                139872345600000ull + pair % 16, (unsigned long long) (pair % 4));
        if (i % 2 == 0)
            fprintf(f, "\"exec_id\":%llu,\"tensor_id\":%llu,\"size\":%llu",
                    (unsigned long long) (i / 200), (unsigned long long) rnd(&seed, 1u << 30) << 20,
                    (unsigned long long) rnd(&seed, 1u << 24));
        fprintf(f, "},\"timestamp_ns\":%llu}", (unsigned long long) ts);
    }
    fputs("]}\n", f);
}

#endif

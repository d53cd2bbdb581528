/* Output of neuron-monitor. */
#include "hw/hw_monitor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_hw_table table = { 0 };

    (void) mrd_hw_monitor_parse((mrd_str){ (const char *) data, size }, &table, (mrd_local_ns){ 1 },
                                NULL);
    mrd_hw_table_fini(&table);
    return 0;
}

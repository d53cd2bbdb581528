/* Output of neuron-monitor, and scripts of simulated counters. */
#include "hw/hw_monitor.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const mrd_hw_backend *const only_fake[] = { &mrd_hw_backend_fake };

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_str text = { (const char *) data, size };
    mrd_hw_table table = { 0 };
    mrd_hw_options options = { 0 };
    mrd_hw *hw;
    char *script = mrd_str_dup(text);

    (void) mrd_hw_monitor_parse(text, &table, (mrd_local_ns){ 1 }, NULL);
    mrd_hw_table_fini(&table);
    options.fake_script = script;
    if (script != NULL && mrd_hw_open_list(only_fake, 1, &options, &hw, NULL) == MRD_OK)
        mrd_hw_close(hw);
    free(script);
    return 0;
}

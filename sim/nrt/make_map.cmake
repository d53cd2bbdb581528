# Writes the version script of one flavour of the simulated runtime.
# cmake -DHEADER=nrt_abi.h -DOUT=x.map -DWITHOUT=regex -P make_map.cmake
file(READ ${HEADER} text)
string(REGEX MATCHALL "[RV]\\([^,(]*(, )?nrt_[a-z_0-9]+" found "${text}")
set(two "")
foreach(item ${found})
    string(REGEX REPLACE ".*(nrt_[a-z_0-9]+)$" "\\1" name "${item}")
    if(NOT WITHOUT OR NOT name MATCHES "^(${WITHOUT})$")
        string(APPEND two "        ${name};\n")
    endif()
endforeach()
# The asynchronous functions name their versions themselves (sim_async.h).
file(WRITE ${OUT} "NRT_2.0.0 {\n    global:\n${two}        nrta_*;\n    local: *;\n};\nNRT_3.0.0 {\n} NRT_2.0.0;\n")

# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=FILE -DOUTPUT=FILE.c -DNAME=symbol -P embed.cmake: the file's bytes as a C array.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "((0x..,){20})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <stddef.h>\nextern const unsigned char ${NAME}[];\n"
    "extern const size_t ${NAME}_size;\n"
    "const unsigned char ${NAME}[] = {\n${bytes}};\n"
    "const size_t ${NAME}_size = sizeof ${NAME};\n")

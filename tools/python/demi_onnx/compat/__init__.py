# SPDX-License-Identifier: Apache-2.0
"""demi with the names and arguments of other converters."""

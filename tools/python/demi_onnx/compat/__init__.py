# SPDX-License-Identifier: Apache-2.0
"""demi by the names and arguments of other converters."""

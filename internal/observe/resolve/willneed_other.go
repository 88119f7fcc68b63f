//go:build !linux

package resolve

import "github.com/statelab/statelab/internal/observe/lsmtail"

func willNeed(lsmtail.TableFile, int64, int64) {}

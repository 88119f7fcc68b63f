package setting

import "github.com/spf13/pflag"

// Var declares a flag of one value with a default, outside of an experiment.
func Var[T any](flags *pflag.FlagSet, v *Value[T], kind Kind[T], name, value, about string) *pflag.Flag {
	One(v, kind).Fall(value)
	return flags.VarPF(v, name, "", about)
}

// ListVar is Var for several values.
func ListVar[T any](flags *pflag.FlagSet, v *Value[T], kind Kind[T], name, value, about string) *pflag.Flag {
	Axis(v, kind).Fall(value)
	return flags.VarPF(v, name, "", about)
}

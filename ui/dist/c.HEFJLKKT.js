import{a,b,c,d,e}from"./c.6CGOPC7W.js";import"./c.CE3PF6WI.js";import"./c.A6LXTHNP.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};

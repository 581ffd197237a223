import{a,b,c,d,e}from"./c.FHRYXHPU.js";import"./c.LFUVUTXJ.js";import"./c.LM2A4VSH.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};
